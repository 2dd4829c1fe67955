//! Filesystems of the overlay engine.

use testkit::{User, user};

use super::{Mount, world};

#[test]
fn the_kernel_mounts_an_overlay_for_root_only() {
    let world = world();
    world.run(["fs", "init", "--engine", "overlay", "two"]).code(125).stderr_contains("--base DIR");
    world.run(["fs", "init", "--engine", "overlay", "--base", "../base", "two"]).succeeds();
    world.run(["fs", "diff", "two"]).succeeds().stdout("").stderr("no changes\n");
    let mount = Mount::guard(&world);
    let run = world.run(["fs", "mount", "two", "../mnt"]);
    if user() == User::Ordinary {
        run.code(125).stderr_contains("only root").stderr_contains("--engine agentfs");
        assert!(!mount.is_there());
        return;
    }
    run.succeeds();
    mount.sh("rm gone; echo new > new; echo more >> read.me").succeeds();
    let twice = world.clone().dir("again").run(["fs", "mount", "two", "../again"]);
    twice.code(125).stderr_contains("is already mounted on");
    world.run(["fs", "ps"]).succeeds().stdout_contains("overlay").stdout_contains("two.overlay");
    world.run(["fs", "unmount", "two"]).succeeds();
    assert!(!mount.is_there());
    world.run(["fs", "diff", "two"]).succeeds().stdout("D f /gone\nA f /new\nM f /read.me\n");
    assert_eq!(world.read("base/read.me"), "from the base\n");
}

#[test]
fn an_engine_that_cannot_do_something_says_so() {
    let world = world();
    world
        .run(["fs", "mount", "--engine", "overlay", "one", "../mnt"])
        .code(125)
        .stderr_contains("created with another engine");
    world.run(["fs", "init", "--engine", "overlay", "--base", "../base", "two"]).succeeds();
    world
        .run(["fs", "mount", "--engine", "agentfs", "two", "../mnt"])
        .code(125)
        .stderr_contains("another engine");
    world.run(["fs", "ls", "two"]).code(125).stderr_contains("does not support");
    if user() == User::Root {
        world
            .run(["fs", "mount", "-a", "two", "../mnt"])
            .code(125)
            .stderr_contains("--auto-unmount");
    }
}
