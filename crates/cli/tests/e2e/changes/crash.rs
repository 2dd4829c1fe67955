//! W9: killed between any two system calls, an apply is completed or taken back, exactly.

use testkit::{World, need};

use super::{change, tree};

/// The calls that change something on disk.
const CALLS: &str = "openat,openat2,write,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlinkat,\
    unlink,mkdirat,mkdir,symlinkat,fchmod,fchown,fchownat,utimensat,ftruncate,copy_file_range,lseek";

fn world() -> World {
    let world =
        World::new().file("project/a", "1\n").file("project/d/x", "x\n").symlink("project/l", "a");
    change(&world, "echo 2 > a; rm -r d; ln -sf n l; mkdir n; echo n > n/n");
    world
}

/// Runs a command, killed when it makes its `nth` call of those. Whether it was.
fn killed(world: &World, words: &[&str], nth: usize) -> bool {
    let strace = need("strace").display().to_string();
    let binary = world.binary().display().to_string();
    let inject = format!("inject={CALLS}:signal=KILL:when={nth}");
    let trace = format!("trace={CALLS}");
    let line = [strace.as_str(), "-f", "-o", "/dev/null", "-e", &trace, "-e", &inject, &binary];
    let run = world.host(line.iter().chain(words).copied());
    run.status().code() != Some(0)
}

#[test]
fn w9_an_apply_that_is_killed_anywhere_is_completed_or_taken_back() {
    let reference = world();
    let before = tree(&reference, "project");
    reference.run(["apply"]).succeeds();
    let after = contents(&reference);
    let mut kills = 0;
    // Every third point for each way out, all points between the two.
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

/// The tree without what differs between two worlds.
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
