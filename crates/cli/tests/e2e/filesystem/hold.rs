//! Rules that hold while a process inside or outside works against them.

use std::fs;
use std::thread;
use std::time::Duration;

use testkit::{World, need};

use crate::probe::sh;

/// Longer than the watcher needs to restore a protection.
const SOON: Duration = Duration::from_millis(300);

#[cfg(feature = "setup")]
#[test]
fn parent_of_a_read_only_path_cannot_be_renamed() {
    let world = World::new().file("project/a/b/keep", "x").file("project/a/free", "x");
    let rename = "import os, sys; os.rename(sys.argv[1], 'moved')";
    for dir in ["a", "a/b", "a/b/keep"] {
        let rename = ["/usr/bin/python3", "-c", rename, dir];
        let run = world.run(["--ro", "a/b/keep"].into_iter().chain(rename)).fails();
        run.stderr_contains("Errno ");
    }
    world.run(["--ro", "a/b/keep", "mv", "a", "moved"]).fails().stderr_contains("busy");
    world.run(["--ro", "a/b/keep", "sh", "-c", "rm a/free; touch a/b/new"]).succeeds();
    world.run(["mv", "a", "moved"]).succeeds();
    assert!(world.has("project/moved/b/keep"));
}

#[test]
fn read_only_path_cannot_be_replaced_removed_or_linked_away() {
    let world = World::new().file("project/dir/keep", "x").file("project/other", "y");
    for tried in [
        "echo z > dir/keep",
        "rm -f dir/keep",
        "rm -rf dir",
        "mv other dir/keep",
        "mv dir/keep gone",
        "ln -f other dir/keep",
        "chmod 777 dir/keep",
        "truncate -s 0 dir/keep",
        "sed -i s/x/z/ dir/keep",
    ] {
        world.run(["--ro", "dir/keep"].into_iter().chain(sh(tried))).fails();
        assert_eq!(world.read("project/dir/keep"), "x", "{tried}");
    }
    world.run(sh("echo z > dir/keep && rm -rf dir")).succeeds();
}

#[test]
fn hard_link_does_not_lead_past_a_hidden_or_read_only_file() {
    let world = World::new().file("project/keep", "x").file("project/.env", "secret");
    let flags = ["--ro", "keep", "--exclude", ".env"];
    world.run(flags.into_iter().chain(sh("ln keep link && echo z > link"))).fails();
    world.run(flags.into_iter().chain(sh("ln .env link && grep secret link"))).fails();
    assert_eq!(world.read("project/keep"), "x");
    world.run(sh("ln keep link && echo z > link && ln .env env && grep secret env")).succeeds();
}

/// Starts a command that waits, runs an action on the host, and lets the command continue.
#[track_caller]
fn meanwhile(world: &World, flags: &[&str], act: impl FnOnce(), then: &str) -> testkit::Run {
    let script = format!("echo ready; read go; {then}");
    let mut run = world.spawn(flags.iter().copied().chain(sh(&script)));
    run.wait_for("ready");
    act();
    thread::sleep(SOON);
    run.send("\n");
    run.wait()
}

#[test]
fn git_settings_stay_read_only_when_the_host_replaces_them() {
    need("git");
    let world = World::new().git_init("project");
    let host_sets = |key: &str| {
        let key = key.to_owned();
        let world = world.clone();
        move || drop(world.host(["git", "config", &key, "value"]).succeeds())
    };
    let evil = "echo '[core] fsmonitor = evil' >> .git/config && echo changed";
    meanwhile(&world, &[], host_sets("test.one"), evil).fails().stdout_lacks("changed");
    world.host(["git", "config", "test.one"]).succeeds().stdout("value\n");
    world.host(["git", "config", "core.fsmonitor"]).fails();
    world.write("free.toml", "filesystem.presets = ['!@git']\n");
    let free = world.path("free.toml").display().to_string();
    meanwhile(&world, &["-c", &free], host_sets("test.two"), evil).succeeds();
}

#[test]
fn host_may_replace_a_read_only_file_again_and_again() {
    let world = World::new().file("project/keep", "0");
    let mut run = world.spawn(
        ["--ro", "keep"]
            .into_iter()
            .chain(sh("echo ready; while read go; do echo evil > keep; cat keep; done")),
    );
    run.wait_for("ready");
    for round in ["one", "two", "three"] {
        world.write("project/keep.new", format!("{round}.\n"));
        fs::rename(world.path("project/keep.new"), world.path("project/keep")).unwrap();
        thread::sleep(SOON);
        run.send("\n");
        run.wait_for(&format!("{round}."));
    }
    run.wait().stderr_contains("keep").stdout("ready\none.\ntwo.\nthree.\n");
}

#[test]
fn hidden_file_stays_hidden_when_the_host_replaces_it() {
    let world = World::new().file("home/.netrc", "old secret").file("project/.env", "old secret");
    let replace = || {
        for path in ["home/.netrc", "project/.env"] {
            world.write("fresh", "new secret");
            fs::rename(world.path("fresh"), world.path(path)).unwrap();
        }
    };
    let read = "cat ~/.netrc .env 2>/dev/null; echo done";
    let home = world.path("home").display().to_string();
    for flags in [&["--exclude", ".env"][..], &["--exclude", ".env", "--ro", "!~", "--rw", &home]] {
        meanwhile(&world, flags, replace, read).succeeds().stdout("ready\ndone\n");
    }
    let open = ["--exclude", "!~/.netrc"];
    meanwhile(&world, &open, replace, read).succeeds().stdout("ready\nnew secretnew secretdone\n");
}

#[test]
fn configuration_cannot_be_changed_from_inside() {
    let world = World::new()
        .file("project/sandbox.toml", "filesystem.exclude = ['.env']\n")
        .file("project/.env", "x")
        .file("home/.config/agent-sandbox/config.toml", "network = true\n");
    for tried in [
        "echo >> sandbox.toml",
        "rm -f sandbox.toml",
        "mv sandbox.toml x",
        "echo >> ~/.config/agent-sandbox/config.toml",
    ] {
        world.run(sh(tried)).fails();
    }
    let writable = ["--rw", "~/.config"];
    world
        .run(writable.into_iter().chain(sh("echo >> ~/.config/agent-sandbox/config.toml")))
        .fails();
    world.run(writable.into_iter().chain(sh("touch ~/.config/other"))).succeeds();
}

#[test]
fn planted_configuration_is_moved_aside() {
    let world = World::new();
    let run = world.run(sh("echo 'network = false' > sandbox.toml")).succeeds();
    run.stderr_contains("moved aside").stderr_contains("sandbox.toml");
    assert!(!world.has("project/sandbox.toml"));
}
