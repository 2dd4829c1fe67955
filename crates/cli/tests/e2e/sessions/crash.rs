//! `up` and `down`, killed at any point: the next command recovers.

use testkit::{World, rounds};

use super::{Up, inside, left_behind};

/// System calls that change files or processes.
const CALLS: &str = "?open,openat,write,pwrite64,fsync,fdatasync,?rmdir,?unlink,unlinkat,?mkdir,mkdirat,?rename,renameat,?chmod,\
    ?fchmodat,bind,listen,connect,sendmsg,?fork,?vfork,clone,?clone3,flock,ftruncate";

/// Runs a command and kills it at its `nth` such call. Returns true if it was killed.
fn killed(world: &World, words: &[&str], nth: usize) -> bool {
    !world.killed_with(&[], CALLS, nth, words).status().success()
}

/// Kills a command at every `step`th point from `first`, and calls `then` after each.
fn at_every_point(
    words: &[&str],
    first: usize,
    step: usize,
    ready: impl Fn() -> World,
    then: impl Fn(&World, usize),
) -> usize {
    let mut kills = 0;
    for nth in (first..).step_by(step) {
        let world = ready();
        let _guard = Up(&world);
        if !killed(&world, words, nth) {
            break;
        }
        kills += 1;
        then(&world, nth);
    }
    kills
}

/// The suite tests every few points and starts at another one after each change of this test. A soak run tests all.
fn step() -> usize {
    rounds(12, 1)
}

#[test]
fn up_that_is_killed_anywhere_is_completed_by_the_next_up() {
    let kills = at_every_point(&["up"], 1, step(), World::new, |world, nth| {
        world.run(["up"]).succeeds();
        world.run(inside("echo served")).succeeds().stdout("served\n");
        world.run(["down"]).succeeds();
        world.run(["rm", "project"]).succeeds();
        assert_eq!(left_behind(world), Vec::<String>::new(), "killed at call {nth}");
    });
    assert!(kills > 50 / step(), "only {kills} points");
}

#[test]
fn up_that_is_killed_anywhere_is_taken_back_by_down() {
    let kills = at_every_point(&["up"], 2, step(), World::new, |world, nth| {
        // Before anything is recorded, there is nothing to stop.
        let down = world.run(["down"]);
        let code = down.status().code();
        assert!(code == Some(0) || code == Some(2), "killed at call {nth}: {}", down.messages());
        world.run(["rm", "project"]);
        assert_eq!(left_behind(world), Vec::<String>::new(), "killed at call {nth}");
    });
    assert!(kills > 50 / step(), "only {kills} points");
}

#[test]
fn down_and_rm_that_are_killed_anywhere_are_completed_by_the_next() {
    let ready = || {
        let world = World::new();
        world.run(["up"]).succeeds();
        world
    };
    for words in [&["down"][..], &["rm", "project"]] {
        let kills = at_every_point(words, 1, step(), ready, |world, nth| {
            let down = world.run(["down", "--all"]);
            assert_eq!(down.status().code(), Some(0), "killed at call {nth}: {}", down.messages());
            world.run(["rm", "project"]);
            world.run(["prune", "--yes"]).succeeds();
            assert_eq!(left_behind(world), Vec::<String>::new(), "{words:?} killed at call {nth}");
        });
        assert!(kills > 20 / step(), "only {kills} points");
    }
}
