//! The process that serves a mount: its start, and every way in which it ends.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Signal, Terminal, World};

use super::{Mount, world};
use crate::cow::killed::elsewhere;

fn pid(world: &World) -> i64 {
    let run = world.run(["fs", "ps", "--json"]).succeeds();
    let rows: Value = serde_json::from_str(&run.output()).expect("JSON");
    let at = world.path("mnt").display().to_string();
    let row = rows.as_array().into_iter().flatten().find(|row| row["mountpoint"] == at.as_str());
    row.and_then(|row| row["pid"].as_i64()).unwrap_or_else(|| panic!("{run}"))
}

#[track_caller]
fn kill(world: &World, signal: &str) {
    world.host(["kill", signal, &pid(world).to_string()]).succeeds();
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a shell whose working directory is in the mount.
fn user_shell_in(world: &World) -> Terminal {
    let mut user = world.clone().cwd("mnt").host_terminal(["sh"]);
    user.enter("echo in-the-$((1 + 1))");
    user.wait_for("in-the-2");
    user
}

#[track_caller]
fn ends(world: &World, daemon: &str) {
    eventually("the daemon ends", || world.host(["kill", "-0", daemon]).status().code() != Some(0));
}

#[test]
fn the_mount_answers_when_the_command_returns_and_keeps_nothing_open() {
    let world = world();
    let guard = Mount::guard(&world);
    // If the background process held the pipe, this would not end.
    let script = format!(
        "exec 7<. 8>held; {} fs mount one ../mnt 2>&1 | cat; ls ../mnt",
        world.binary().display()
    );
    world.host(["sh", "-c", &script]).succeeds().stdout_contains("read.me");
    let open = world.host(["ls", "-l", &format!("/proc/{}/fd", pid(&world))]).succeeds();
    assert!(
        !open.output().contains("held") && !open.output().contains("pipe:[")
            || open.output().matches("pipe:").count() <= 2,
        "{open}"
    );
    guard.end();
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_closed_and_the_place_can_be_mounted_again() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("echo kept > kept; for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; done").succeeds();
    kill(&world, "-KILL");
    eventually("the kernel notices", || mount.is_dead());
    world.run(["fs", "ps"]).succeeds().stdout_contains("stale").stderr_contains("fs unmount");
    world.run(["fs", "cat", "one", "kept"]).succeeds().stdout("kept\n");
    let again = Mount::new(&world, &[]);
    again.sh("cat kept f1 f9").succeeds().stdout("kept\n1\n9\n");
    again.end();
    world.run(["fs", "fsck", "one"]).succeeds();
}

#[test]
fn unmount_clears_a_stale_mount() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    kill(&world, "-KILL");
    eventually("the kernel notices", || mount.is_dead());
    world.run(["fs", "unmount", "../mnt"]).succeeds();
    assert!(!mount.is_there());
    let database = world.path("project/.agentfs/one.db").display().to_string();
    world.run(["fs", "ps"]).succeeds().stdout_lacks(&database);
}

#[test]
fn auto_unmount_takes_the_mount_away_when_the_daemon_is_killed() {
    let world = world();
    let mount = Mount::new(&world, &["-a"]);
    mount.sh("echo kept > kept").succeeds();
    kill(&world, "-KILL");
    eventually("the mount goes away", || !mount.is_there());
    world.run(["fs", "cat", "one", "kept"]).succeeds().stdout("kept\n");
    // The control: without the flag, the mount remains.
    let stays = Mount::new(&world, &[]);
    kill(&world, "-KILL");
    std::thread::sleep(Duration::from_millis(300));
    assert!(stays.is_there());
}

#[test]
fn a_daemon_that_is_asked_to_end_unmounts_and_settles() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("head -c 400000 /dev/zero > large; echo kept > kept").succeeds();
    kill(&world, "-TERM");
    eventually("the mount goes away", || !mount.is_there());
    eventually("the database is one file", || {
        world.host(["ls", "-A", ".agentfs"]).output() == "one.db\n"
    });
    world.run(["fs", "cat", "one", "kept"]).succeeds().stdout("kept\n");
}

#[test]
fn a_daemon_that_is_asked_to_end_does_so_even_if_the_mount_is_in_use() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    let mut user = user_shell_in(&world);
    let daemon = pid(&world).to_string();
    kill(&world, "-TERM");
    eventually("the mount goes away", || !mount.is_there());
    ends(&world, &daemon);
    user.enter("exit");
    user.wait();
}

#[test]
fn a_daemon_whose_mount_is_out_of_sight_ends_and_leaves_alone_what_is_there_now() {
    // With the flag, another process unmounts it.
    for flags in [&[][..], &["-a"]] {
        let world = world();
        let mount = Mount::new(&world, flags);
        let mut user = user_shell_in(&world);
        let daemon = pid(&world).to_string();
        world.run(["fs", "unmount", "--lazy", "../mnt"]).succeeds();
        world.run(["fs", "init", "two"]).succeeds();
        world.run(["fs", "mount", "two", "../mnt"]).succeeds();
        world.host(["kill", "-TERM", &daemon]).succeeds();
        ends(&world, &daemon);
        std::thread::sleep(Duration::from_millis(300));
        mount.sh("echo x > new; cat new").succeeds().stdout("x\n");
        world.run(["fs", "ps"]).succeeds().stdout_contains(".agentfs/two.db");
        user.enter("exit");
        user.wait();
        world.run(["fs", "unmount", "two"]).succeeds();
    }
}

#[test]
fn a_watcher_leaves_alone_what_was_mounted_while_the_database_came_to_rest() {
    let world = world();
    let mount = Mount::new(&world, &["-a"]);
    mount.sh("yes | head -c 150000000 > large").succeeds();
    let daemon = pid(&world).to_string();
    world.host(["fusermount3", "-u", "../mnt"]).succeeds();
    world.run(["fs", "init", "two"]).succeeds();
    world.run(["fs", "mount", "two", "../mnt"]).succeeds();
    world.host(["kill", "-0", &daemon]).succeeds();
    ends(&world, &daemon);
    std::thread::sleep(Duration::from_millis(300));
    mount.sh("echo x > new; cat new").succeeds().stdout("x\n");
    world.run(["fs", "ps"]).succeeds().stdout_contains(".agentfs/two.db");
    world.run(["fs", "unmount", "two"]).succeeds();
}

#[test]
fn in_the_foreground_a_key_ends_it() {
    let world = world();
    let mount = Mount::guard(&world);
    let process = world.spawn(["fs", "mount", "-f", "one", "../mnt"]);
    process.wait_for_message("mounted");
    mount.sh("echo x > new; cat new").succeeds().stdout("x\n");
    process.signal(Signal::INT);
    process.wait().succeeds();
    assert!(!mount.is_there());
    world.run(["fs", "cat", "one", "new"]).succeeds().stdout("x\n");
}

#[test]
fn a_mount_can_be_taken_away_by_the_usual_programs() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("echo x > new").succeeds();
    world.host(["fusermount3", "-u", "../mnt"]).succeeds();
    assert!(!mount.is_there());
    let database = world.path("project/.agentfs/one.db").display().to_string();
    eventually("the list lacks it", || !world.run(["fs", "ps"]).output().contains(&database));
    world.run(["fs", "cat", "one", "new"]).succeeds().stdout("x\n");
}

#[test]
fn unmount_names_who_has_the_mount_in_another_namespace_and_does_not_wait() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    let daemon = pid(&world).to_string();
    let other = world.start(elsewhere(&mount.at.display().to_string()));
    other.wait_for("held");
    world
        .run(["fs", "unmount", "one"])
        .code(125)
        .stderr_contains("waiting: process ")
        .stderr_contains("(`sleep`) has it in another mount namespace")
        .stderr_contains(&format!("kill {daemon}"));
    assert!(!mount.is_there());
    // The command of the hint works.
    world.host(["kill", &daemon]).succeeds();
    ends(&world, &daemon);
    other.signal(Signal::KILL);
    other.wait();
    // The control: without the other namespace, it ends at once.
    Mount::new(&world, &[]).end();
}
