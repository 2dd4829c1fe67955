//! Directories of the project that a session of the engine agentfs moves.

use testkit::{Run, World, need, rounds};

use crate::changes::tree;

/// Runs a script in the session `s` of the engine agentfs.
#[track_caller]
fn agentfs(world: &World, script: &str) -> Run {
    world.run(["--session", "s", "--cow=agentfs", "sh", "-ec", script]).succeeds()
}

fn world() -> World {
    need("fusermount3");
    World::new()
        .file("project/d/e/z", "z\n")
        .file("project/d/x", "x\n")
        .file("project/d/e/f/deep", "deep\n")
        .file("project/other/o", "o\n")
        .symlink("project/d/l", "x")
}

/// Returns every file of the project, without times.
#[track_caller]
fn project(world: &World) -> String {
    let find = "cd project && find . -mindepth 1 \\( -type f -printf '%p ' -exec cat {} \\; \\) \
        -o \\( -type l -printf '%p -> %l\\n' \\) -o -printf '%p/\\n' | sort";
    world.clone().cwd(".").host(["sh", "-c", find]).succeeds().output()
}

const LOOK: &str = "find . -mindepth 1 \\( -type f -printf '%p ' -exec cat {} \\; \\) \
    -o \\( -type l -printf '%p -> %l\\n' \\) -o -printf '%p/\\n' | sort";

/// Applies the changes of a script. Compares the project with the session's view, again after the next run, and then
/// reverts the apply.
#[track_caller]
fn comes_over(script: &str) {
    let world = world();
    let before = tree(&world, "project");
    agentfs(&world, script);
    let inside = agentfs(&world, LOOK).output();
    world.run(["apply", "-s", "s"]).succeeds();
    assert_eq!(project(&world), inside, "after `{script}`");
    assert_eq!(agentfs(&world, LOOK).output(), inside, "the session after `{script}`");
    world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout("");
    agentfs(&world, "echo more > more");
    world.run(["apply", "-s", "s"]).succeeds().stdout("A more\n");
    world.run(["undo", "-s", "s"]).succeeds();
    world.run(["undo", "-s", "s"]).succeeds();
    assert_eq!(tree(&world, "project"), before, "undone after `{script}`");
    let more = format!("{inside}./more more\n");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(&agentfs(&world, LOOK).output()),
        sorted(&more),
        "undone, inside: `{script}`"
    );
}

#[test]
fn a_moved_directory_comes_over_in_one_go() {
    for script in [
        "mv d dd",
        "mv d dd; mv dd/e dd/g; echo new > dd/n; rm dd/x",
        "mv d dd; mv dd ddd; mv ddd/e/f up",
        "rm -r other; mv d other",
        "mkdir -p new/deep; mv d new/deep/d",
        "mv d dd; mkdir d; mv dd/e d/e; echo mine > d/mine",
        "mv d dd; mv other d; mv dd other",
        "mv d dd; mv dd d; echo home > d/home",
        "mv d/e e; mv d e/d; ln e/d/x e/hard",
    ] {
        comes_over(script);
    }
}

#[test]
fn a_moved_directory_stays_whole_when_it_is_applied_in_parts() {
    let world = world();
    agentfs(&world, "mv d dd");
    world.run(["apply", "-s", "s", "dd"]).succeeds();
    assert_eq!(world.read("project/dd/e/z"), "z\n");
    assert_eq!(world.read("project/d/e/z"), "z\n");
    world.run(["apply", "-s", "s"]).succeeds();
    agentfs(&world, "cat dd/e/z dd/x dd/e/f/deep; echo new > dd/n").stdout("z\nx\ndeep\n");
    world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout("dd/n\n");
    world.run(["apply", "-s", "s"]).succeeds().stdout("A dd/n\n");
    assert_eq!(world.read("project/dd/e/z"), "z\n");
}

#[test]
fn a_moved_directory_is_kept_when_the_host_loses_or_changes_where_it_was() {
    let world = world();
    agentfs(&world, "mv d dd");
    world.host(["rm", "-r", "d/e", "d/x"]).succeeds();
    agentfs(&world, "cat dd/e/z dd/e/f/deep").stdout("z\ndeep\n");
    world.run(["apply", "-s", "s", "dd"]).succeeds();
    assert_eq!(world.read("project/dd/x"), "x\n");
}

#[test]
fn a_snapshot_keeps_a_moved_directory_after_an_apply() {
    let world = world();
    agentfs(&world, "mv d dd");
    world.run(["snapshot", "-s", "s", "then"]).succeeds();
    world.run(["apply", "-s", "s"]).succeeds();
    agentfs(&world, "rm -r dd");
    world.run(["restore", "-s", "s", "then"]).succeeds();
    agentfs(&world, "cat dd/e/z").stdout("z\n");
}

#[test]
fn a_directory_that_is_lost_while_the_session_runs_is_refused_and_nothing_goes() {
    let world = world();
    let mut run = world.spawn([
        "--session",
        "s",
        "--cow=agentfs",
        "sh",
        "-ec",
        "mv d dd; echo precious > p; echo moved; read line",
    ]);
    run.wait_for("moved");
    world.host(["mv", "d", "elsewhere"]).succeeds();
    run.send("go\n");
    let ended = run.wait();
    ended.stderr_contains("`dd` was moved from `d`").stderr_contains("restore `d` in the base");
    let before = tree(&world, "project");
    for words in [vec!["diff", "-s", "s"], vec!["apply", "-s", "s"], vec!["apply", "-s", "s", "p"]]
    {
        world.run(words).code(1).stderr_contains("`dd` was moved from `d`");
    }
    assert_eq!(tree(&world, "project"), before);
    // The session can be entered, and a directory that was moved back counts as never moved.
    agentfs(&world, "cat p").stdout("precious\n");
    world.host(["mv", "elsewhere", "d"]).succeeds();
    agentfs(&world, "cat dd/e/z").stdout("z\n");
    world.run(["apply", "-s", "s", "dd", "p"]).succeeds();
    assert_eq!(world.read("project/dd/e/z"), "z\n");
    assert_eq!(world.read("project/p"), "precious\n");
}

#[test]
fn a_moved_directory_survives_a_kill_at_any_call_of_an_apply() {
    let calls = "openat,write,fsync,fdatasync,syncfs,rename,renameat2,unlinkat,unlink,mkdirat,ftruncate,pwrite64";
    let done = world();
    agentfs(&done, "mv d dd");
    done.run(["apply", "-s", "s"]).succeeds();
    let after = project(&done);
    let mut kills = 0;
    for nth in (1..).step_by(rounds(9, 1)) {
        let world = world();
        let before = project(&world);
        agentfs(&world, "mv d dd");
        if world.killed_at(calls, nth, &["apply", "-s", "s"]).status().success() {
            break;
        }
        kills += 1;
        agentfs(&world, "cat dd/e/z dd/x").stdout("z\nx\n");
        if kills % 2 == 0 {
            world.run(["apply", "-s", "s"]).succeeds();
            assert_eq!(project(&world), after, "killed at call {nth}, then completed");
        } else {
            world.run(["undo", "-s", "s"]);
            assert_eq!(project(&world), before, "killed at call {nth}, then undone");
        }
        agentfs(&world, "cat dd/e/z dd/x").stdout("z\nx\n");
    }
    assert!(kills > 3, "only {kills} points");
}
