//! Command lines of the tool `agentfs`.

use testkit::{Run, World};

use super::{Mount, world};

/// Runs the binary as `agentfs`.
#[track_caller]
fn agentfs(world: &World, words: &[&str]) -> Run {
    let link = world.path("agentfs");
    if !world.has("agentfs") {
        std::os::unix::fs::symlink(world.binary(), &link).expect("a link");
    }
    let link = link.display().to_string();
    world.host([link.as_str()].iter().chain(words))
}

#[cfg(feature = "setup")]
#[test]
fn init_and_mount_take_the_command_lines_of_that_tool() {
    let world = world();
    agentfs(&world, &["init", "--base", "../base", "two"]).succeeds();
    agentfs(&world, &["init", "--base", "../base", "two"])
        .code(1)
        .stderr_contains("already exists");
    agentfs(&world, &["init", "--force", "--base", "../base", "two"]).succeeds();
    agentfs(&world, &["init", "a/b"]).code(1);
    let mount = Mount::guard(&world);
    agentfs(&world, &["mount", "-a", "--backend", "fuse", "two", "../mnt"]).succeeds();
    agentfs(&world, &["mount"]).succeeds().stdout_contains(".agentfs/two.db");
    agentfs(&world, &["ps"]).succeeds().stdout_contains(".agentfs/two.db");
    mount.sh("rm gone; echo x > new; echo y > read.me").succeeds();
    agentfs(&world, &["diff", "two"]).succeeds().stdout("D f /gone\nA f /new\nM f /read.me\n");
    world.run(["fs", "unmount", "two"]).succeeds();
    agentfs(&world, &["fs", "two", "ls"]).succeeds().stdout_contains("f src/deep/main.rs\n");
    agentfs(&world, &["fs", "two", "cat", "/new"]).succeeds().stdout("x\n");
    agentfs(&world, &["timeline", "two", "--format", "json"]).succeeds().stdout("[]\n");
}

#[test]
fn what_it_does_not_do_is_said() {
    let world = world();
    agentfs(&world, &["--help"]).succeeds().stdout_contains("Usage: agentfs");
    agentfs(&world, &["run", "ls"]).code(1).stderr_contains("does not support `agentfs run`");
    agentfs(&world, &["mount", "--backend", "nfs", "one", "../mnt"]).code(2);
    agentfs(&world, &["init", "--key", "00", "x"]).code(2).stderr_contains("--key");
    agentfs(&world, &["mount", "one"]).code(2);
    agentfs(&world, &["fs", "nope", "ls"]).code(1).stderr_contains("no filesystem `nope`");
}
