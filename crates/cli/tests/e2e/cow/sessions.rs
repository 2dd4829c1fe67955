//! `ps`, `rm`, `prune`, `snapshot`, `restore`, `fork` and `history`.

use testkit::{Signal, World};

use super::{cow, place};

fn two_snapshots() -> World {
    let world =
        place().file("project/a", "one\n").file("project/d/x", "x").file("project/d/y", "y");
    cow(&world, &["-s", "fix"], "echo two >> a; rm d/x; echo n > d/n").succeeds();
    world.run(["snapshot", "first"]).succeeds().stdout("first\n");
    cow(&world, &["-s", "fix"], "rm -r d; mkdir d; echo z > d/z").succeeds();
    world.run(["snapshot"]).succeeds().stdout("2\n");
    world
}

#[test]
fn restore_goes_back_and_keeps_what_was() {
    let world = two_snapshots();
    let look = |expected: &str| {
        cow(&world, &["-s", "fix"], "cat a; ls d").succeeds().stdout(expected);
    };
    look("one\ntwo\nz\n");
    world
        .run(["restore", "first"])
        .succeeds()
        .stderr_contains("The previous state is snapshot `3`");
    look("one\ntwo\nn\ny\n");
    world.run(["restore", "3"]).succeeds();
    look("one\ntwo\nz\n");
    world.run(["restore", "nowhere"]).code(1).stderr_contains("has no snapshot `nowhere`");
    world.run(["snapshot", "first"]).code(1).stderr_contains("snapshot `first` already exists");
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn a_fork_goes_on_by_itself() {
    let world = two_snapshots();
    world.run(["fork", "other"]).succeeds();
    cow(&world, &["-s", "other"], "echo three >> a; ls d").succeeds().stdout("z\n");
    cow(&world, &["-s", "fix"], "cat a").succeeds().stdout("one\ntwo\n");
    world.run(["rm", "--yes", "fix"]).succeeds().stderr_contains("Removed fix: ");
    cow(&world, &["-s", "other"], "cat a; ls d").succeeds().stdout("one\ntwo\nthree\nz\n");
    world.run(["history", "-s", "other"]).succeeds().stdout_contains("fork");
}

#[test]
fn a_high_stack_shows_what_it_showed() {
    let world = two_snapshots();
    world.run(["restore", "first"]).succeeds();
    for number in 0..18 {
        let script = format!("echo {number} >> a; rm -f f{}; echo > f{number}", number - 1);
        cow(&world, &["-s", "fix"], &script).succeeds();
        world.run(["snapshot", "-s", "fix"]).succeeds();
    }
    let run = cow(&world, &["-s", "fix"], "cat a | tr '\\n' ' '; ls . d").succeeds();
    run.stdout("one two 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 .:\na\nd\nf17\n\nd:\nn\ny\n");
    let ids = world.run(["ps", "--json"]).succeeds().output();
    assert!(ids.contains("\"snapshots\": 21"), "{ids}");
    let script = "grep -c overlay /proc/self/mounts; grep -o '/upper' /proc/self/mounts | wc -l";
    let layers = cow(&world, &["-s", "fix"], script).succeeds().output();
    let layers: usize = layers.lines().nth(1).and_then(|line| line.parse().ok()).expect("a number");
    assert!(layers <= 17, "{layers} layers");
}

#[test]
fn a_running_session_is_held_still_for_a_snapshot_and_goes_on() {
    let world = place();
    // Two files that are always written together.
    let script = "i=0; while :; do i=$((i+1)); for f in a b; do echo $i > t; mv t $f; done; [ $i = 1 ] && echo ready; done";
    let mut run = world.spawn(["-s", "fix", "sh", "-c", script]);
    run.wait_for("ready");
    for _ in 0..5 {
        world.run(["snapshot", "-s", "fix"]).succeeds();
    }
    world.run(["restore", "-s", "fix", "1"]).code(1).stderr_contains("is in use by process");
    world.run(["rm", "fix"]).code(1).stderr_contains("is in use");
    world.run(["ps"]).succeeds().stdout_contains("running");
    assert!(run.is_running());
    run.signal(Signal::TERM);
    run.wait();
    world.run(["restore", "-s", "fix", "5"]).succeeds();
    let kept = cow(&world, &["-s", "fix"], "cat a b").succeeds().output();
    let numbers: Vec<i64> = kept.lines().filter_map(|line| line.parse().ok()).collect();
    let [a, b] = numbers[..] else { panic!("two numbers, not {kept:?}") };
    assert!(a - b == 0 || a - b == 1, "a is {a} and b is {b}");
}

#[test]
fn a_killed_run_is_shown_and_its_changes_are_kept() {
    let world = place().file("project/a", "one\n");
    let run = world.spawn(["-s", "fix", "sh", "-c", "echo two >> a; echo ready; sleep 100"]);
    run.wait_for("ready");
    run.signal(Signal::KILL);
    run.wait();
    world.run(["ps"]).succeeds().stdout_contains("killed");
    cow(&world, &["-s", "fix"], "cat a").succeeds().stdout("one\ntwo\n");
    world.run(["ps"]).succeeds().stdout_contains("stopped");
    world.run(["history"]).succeeds().stdout_contains("was killed");
}

#[test]
fn names_that_are_none_are_met_with_a_way_to_the_program() {
    let world = place().file("project/file", "");
    for (args, program) in [
        (&["rm", "file"][..], "rm"),
        (&["rm", "-rf", "file"], "rm"),
        (&["ps", "aux"], "ps"),
        (&["history", "-c"], "history"),
    ] {
        let hint = format!("to run the program: agent-sandbox exec {program} …");
        world.run(args).code(2).stderr_contains(&hint);
    }
    world.run(["exec", "rm", "file"]).succeeds();
    assert!(!world.has("project/file"));
}

#[test]
fn prune_reports_first_and_removes_unchanged_sessions() {
    let world = place().file("project/a", "one\n");
    cow(&world, &["-s", "empty"], "true").succeeds();
    cow(&world, &["-s", "full"], "echo two >> a").succeeds();
    world.run(["prune", "--dry-run"]).succeeds().stderr_contains("empty").stderr_lacks("full");
    world.run(["prune"]).code(2).stderr_contains("pass --yes");
    world.run(["ps"]).stdout_contains("empty");
    world.run(["prune", "--yes"]).succeeds();
    world.run(["ps"]).stdout_lacks("empty").stdout_contains("full");
    // Unapplied work is removed only by name, however old it is.
    let kept = world.run(["prune", "--older-than", "0", "--yes"]).succeeds();
    kept.stderr_contains("kept full: it has unapplied changes").stderr_contains("rm full");
    world.run(["ps"]).stdout_contains("full");
    world.run(["prune", "nosuch", "--yes"]).code(2).stderr_contains("nosuch");
    world.run(["prune", "full"]).code(2).stderr_contains("pass --yes");
    world.run(["prune", "full", "--yes"]).succeeds().stderr_contains("1 file changed");
    world.run(["ps"]).stdout("").stderr_contains("no sessions");
    let layers = world.path("home/.local/share/agent-sandbox/layers");
    assert_eq!(std::fs::read_dir(layers).expect("a directory").count(), 0, "layers are left");
}
