//! W9: an apply that is killed at any system call is completed or reverted exactly; a snapshot exists or does not.

use testkit::{World, rounds};

use super::{change, start, tree};

/// System calls that change something on disk. Those with a `?` do not exist on every machine.
const CALLS: &str = "?open,?rmdir,?symlink,?link,openat,openat2,write,fsync,fdatasync,syncfs,rename,renameat,\
    renameat2,unlinkat,unlink,mkdirat,mkdir,symlinkat,fchmod,fchown,fchownat,utimensat,ftruncate,copy_file_range,lseek";

fn world() -> World {
    let world =
        World::new().file("project/a", "1\n").file("project/d/x", "x\n").symlink("project/l", "a");
    change(&world, "echo 2 > a; rm -r d; ln -sf n l; mkdir n; echo n > n/n");
    world
}

/// Runs a command and kills it at its `nth` such call. Returns true if it was killed.
fn killed(world: &World, words: &[&str], nth: usize) -> bool {
    killed_with(world, &["-f"], words, nth)
}

/// Version of [`killed`] with flags for strace.
fn killed_with(world: &World, flags: &[&str], words: &[&str], nth: usize) -> bool {
    !world.killed_with(flags, CALLS, nth, words).status().success()
}

#[test]
fn w9_an_apply_that_is_killed_anywhere_is_completed_or_taken_back() {
    let reference = world();
    let before = tree(&reference, "project");
    reference.run(["apply"]).succeeds();
    let after = contents(&reference);
    let mut kills = 0;
    // Every third point for each direction covers all points together.
    for nth in 1.. {
        let world = world();
        if !killed(&world, &["apply"], nth) {
            break;
        }
        kills += 1;
        if nth % 2 == 0 {
            world.run(["apply", "--resume"]).succeeds();
            world.run(["apply"]).succeeds();
            assert_eq!(contents(&world), after, "killed at call {nth}, then completed");
            world.run(["diff", "--name-only"]).succeeds().stdout("");
        } else {
            world.run(["undo"]);
            assert_eq!(
                untimed(&tree(&world, "project")),
                untimed(&before),
                "killed at call {nth}, then undone"
            );
            world.run(["diff", "--name-only"]).succeeds().stdout("a\nd/\nd/x\nl\nn/\nn/n\n");
        }
        assert!(!tree(&world, "project").contains(".agent-sandbox-"), "litter at {nth}");
    }
    assert!(kills > 60, "only {kills} points");
}

#[test]
fn w9_many_files_that_are_put_in_place_together_survive_a_kill_too() {
    let many = || {
        let world = World::new();
        for number in 0..20 {
            world.write(format!("project/{number}"), "1\n");
        }
        change(&world, "for i in $(seq 0 19); do echo 2 > $i; echo n > new$i; done");
        world
    };
    let reference = many();
    let before = contents(&reference);
    reference.run(["apply"]).succeeds();
    let after = contents(&reference);
    let mut kills = 0;
    for nth in (1..).step_by(97) {
        let world = many();
        if !killed(&world, &["apply"], nth) {
            break;
        }
        kills += 1;
        if kills % 2 == 0 {
            world.run(["apply", "--resume"]).succeeds();
            world.run(["apply"]).succeeds();
            assert_eq!(contents(&world), after, "killed at call {nth}, then completed");
        } else {
            world.run(["undo"]);
            assert_eq!(contents(&world), before, "killed at call {nth}, then undone");
        }
    }
    assert!(kills > 5, "only {kills} points");
}

#[test]
fn w9_an_undo_that_is_killed_anywhere_is_completed() {
    let mut kills = 0;
    for nth in (1..).step_by(3) {
        let world = world();
        let before = tree(&world, "project");
        world.run(["apply"]).succeeds();
        if !killed(&world, &["undo"], nth) {
            break;
        }
        kills += 1;
        world.run(["undo"]);
        assert_eq!(untimed(&tree(&world, "project")), untimed(&before), "killed at call {nth}");
    }
    assert!(kills > 15, "only {kills} points");
}

#[test]
fn a_snapshot_of_the_kernels_overlay_that_is_killed_anywhere_is_there_or_is_not() {
    let kills = kill_snapshots("overlay", 1);
    assert!(kills > 10, "only {kills} points");
}

#[test]
fn a_snapshot_of_a_database_that_is_killed_anywhere_is_there_or_is_not() {
    let kills = kill_snapshots("agentfs", rounds(2, 1));
    assert!(kills > 5, "only {kills} points");
}

/// Kills a snapshot at every `step`th call. Returns how often.
fn kill_snapshots(engine: &str, step: usize) -> usize {
    let engine = format!("--cow={engine}");
    let run = |world: &World, script: &str| {
        let world = world.clone().without_env("AGENT_SANDBOX_MOUNTS");
        world.run([engine.as_str(), "-s", "s", "sh", "-ec", script]).succeeds()
    };
    let mut kills = 0;
    for nth in (1..).step_by(step) {
        let world = World::new().file("project/a", "1\n").file("project/d/x", "x\n");
        run(&world, "echo 2 > a; rm -r d; mkdir n; head -c 200000 /dev/zero > n/n");
        let names = || world.run(["diff", "-s", "s", "--name-only"]).succeeds().output();
        let before = names();
        if !killed(&world, &["snapshot", "-s", "s", "one"], nth) {
            break;
        }
        kills += 1;
        assert_eq!(names(), before, "killed at call {nth}");
        // The session continues, and a snapshot that does not exist can be taken.
        let taken = world.run(["snapshot", "-s", "s", "one"]);
        assert!(taken.status().success() || taken.messages().contains("already"), "{taken}");
        run(&world, "echo 3 > a; echo more > more; wc -c < n/n").stdout("200000\n");
        world.run(["restore", "-s", "s", "one"]).succeeds();
        assert_eq!(names(), before, "killed at call {nth}, then restored");
        run(&world, "cat a; ls").stdout("2\na\nn\n");
        assert_eq!(strays(&world), "", "killed at call {nth}");
    }
    kills
}

/// Returns layers that no session names.
fn strays(world: &World) -> String {
    let data = world.path("home/.local/share/agent-sandbox").display().to_string();
    let look = "cd \"$0\" && for layer in $(ls layers); do grep -q $layer sessions/*/session.json || echo $layer; done";
    world.host(["sh", "-c", look, &data]).succeeds().output()
}

#[test]
fn a_session_goes_on_when_its_snapshot_is_killed() {
    let mut kills = 0;
    for nth in (1..).step_by(rounds(3, 1)) {
        let world = World::new().file("project/a", "1\n");
        let mut running = start(&world, "s", "echo 2 > a; echo ready; read line; cat a");
        running.wait_for("ready");
        // Does not kill the helper that resumes the session if this process dies.
        let killed = killed_with(&world, &[], &["snapshot", "-s", "s", "one"], nth);
        running.send("\n");
        // If it stayed frozen, it would not end.
        running.wait().succeeds().stdout("ready\n2\n");
        if !killed {
            break;
        }
        kills += 1;
        world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout("a\n");
        world.run(["snapshot", "-s", "s", "two"]).succeeds();
        assert_eq!(strays(&world), "", "killed at call {nth}");
    }
    assert!(kills > 3, "only {kills} points");
}

/// Returns the tree without values that differ between two worlds.
fn contents(world: &World) -> String {
    untimed(&tree(world, "project"))
}

fn untimed(tree: &str) -> String {
    let plain = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let kept = words.iter().enumerate().filter(|(at, _)| words[0] != "f" || *at != 3);
        kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
    };
    tree.lines().map(|line| plain(line) + "\n").collect()
}

/// For every state after a killed apply or undo: `diff` names the interrupted command and lists only the session's
/// work, `discard` does not prevent its completion, and `rm` leaves none of our files in the project.
#[test]
fn a_half_done_apply_is_named_is_not_discarded_and_leaves_no_litter() {
    let (mut applies, mut undos, mut litter) = (0, 0, 0);
    for (prepare, command, step) in [(false, "apply", 1), (true, "undo", 2)] {
        for nth in (1..).step_by(step) {
            let world = world();
            if prepare {
                world.run(["apply"]).succeeds();
            }
            if !killed(&world, &[command], nth) {
                break;
            }
            let diff =
                world.run(["diff", "--name-only"]).succeeds().stdout_lacks(".agent-sandbox-");
            let messages = diff.messages();
            let half_done = messages.contains("was interrupted");
            applies += usize::from(messages.contains("an apply was interrupted"));
            undos += usize::from(messages.contains("an undo was interrupted"));
            if prepare {
                assert!(!messages.contains("an apply was"), "{messages}");
            }
            if half_done {
                let refused = world.run(["discard", "--yes"]).code(1);
                refused.stderr_contains("was interrupted").stderr_contains("undo -s s");
            }
            litter += usize::from(tree(&world, "project").contains(".agent-sandbox-"));
            world.run(["rm", "--yes", "s"]).succeeds();
            let left = tree(&world, "project");
            assert!(!left.contains(".agent-sandbox-"), "{command} killed at {nth}:\n{left}");
        }
    }
    assert!(applies > 5 && undos > 5 && litter > 3, "{applies} {undos} {litter}");
    // The control: after recovery, changes can be discarded.
    let world = world();
    world.run(["discard", "--yes"]).succeeds().stderr_contains("Discarded all changes");
}
