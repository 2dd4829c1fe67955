//! A copy-on-write workspace in a container, with the same commands as in the local sandbox.

use std::os::unix::fs::{PermissionsExt, chown};

use testkit::Run;

use super::stage::{NAME, Stage};

mod attacks;
mod user;

/// Creates a project that belongs to the agent, with a few files.
fn stage(config: &str) -> Stage {
    let stage = Stage::new(config);
    for (path, text) in [("kept", "one\ntwo\nthree\n"), ("gone", "old\n"), ("dir/deep", "x\n")] {
        stage.world.write(format!("project/{path}"), text);
    }
    stage.world.host(["chown", "-R", "1000:1000", "../project"]).succeeds();
    stage
}

fn up(config: &str) -> Stage {
    let stage = stage(config);
    stage.bring_up().succeeds().stderr_contains("go to a copy-on-write layer");
    stage
}

/// Runs a command about the session's changes, in the project.
#[track_caller]
fn of(stage: &Stage, words: &[&str]) -> Run {
    stage.world.run(words.iter().copied().chain(["-s", NAME]))
}

/// Returns the output of `docker volume ls` for this session.
fn volumes(stage: &Stage, id: &str) -> String {
    let label = format!("label=agent-sandbox.session={id}");
    stage.docker.run(["volume", "ls", "--quiet", "--filter", &label]).succeeds().output()
}

const CHANGE: &str =
    "echo four >> kept; echo new > made; rm gone; mkdir -p dir/new; echo y > dir/new/file";

#[test]
fn changes_stay_apart_until_they_are_applied() {
    let stage = up("workspace.cow = true");
    let id = stage.id().unwrap();
    stage.sh(CHANGE).succeeds();
    stage.sh("cat kept made; ls").succeeds().stdout_contains("four\nnew\n").stdout_lacks("gone");
    assert_eq!(stage.world.read("project/kept"), "one\ntwo\nthree\n");
    assert!(stage.world.has("project/gone") && !stage.world.has("project/made"));
    stage.world.run(["ps"]).succeeds().stdout_contains("docker+overlay").stdout_contains("running");
    // Changes can be shown while it is up, and applied when it is down.
    of(&stage, &["diff", "--name-only"])
        .succeeds()
        .stdout("dir/new/\ndir/new/file\ngone\nkept\nmade\n");
    of(&stage, &["apply"]).code(1).stderr_contains("is up").stderr_contains("down box");
    of(&stage, &["discard", "--yes"]).code(1).stderr_contains("is up");
    stage.down().succeeds();
    assert_eq!(volumes(&stage, &id), "");
    stage.world.run(["ps"]).succeeds().stdout_contains("stopped").stdout_contains("4 files");
    // The next container continues with the layer.
    stage.bring_up().succeeds();
    stage.sh("cat made; echo more >> made").succeeds().stdout("new\n");
    stage.down().succeeds();
    of(&stage, &["diff", "--patch", "made"]).succeeds().stdout_contains("+new\n+more\n");
    of(&stage, &["apply", "--yes"]).succeeds().stderr_contains("Applied 5 changes");
    assert_eq!(stage.world.read("project/kept"), "one\ntwo\nthree\nfour\n");
    assert_eq!(stage.world.read("project/made"), "new\nmore\n");
    assert!(!stage.world.has("project/gone"));
    // Applied files belong to the owner of the project.
    let owners = stage.world.host(["stat", "-c", "%u:%g", "dir/new/file", "made"]).succeeds();
    assert_eq!(owners.output(), "1000:1000\n1000:1000\n");
    of(&stage, &["diff"]).succeeds().stdout("");
    of(&stage, &["undo"]).succeeds();
    assert_eq!(stage.world.read("project/kept"), "one\ntwo\nthree\n");
    of(&stage, &["discard", "--yes"]).succeeds();
    stage.world.run(["rm", NAME]).succeeds();
    assert_eq!(
        stage.world.host(["sh", "-c", "ls ~/.local/share/agent-sandbox/layers"]).output(),
        ""
    );
}

/// `--cow` is needed once. Afterwards, the existing layer decides.
#[test]
fn up_continues_with_the_layer_when_cow_is_not_typed_again() {
    let stage = stage("");
    stage.world.run(["--trust", "--cow", "up", "--name", NAME]).succeeds();
    stage.sh("echo new > made").succeeds();
    stage.down().succeeds();
    let again = stage.world.run(["--trust", "up", "--name", NAME]).succeeds();
    again.stderr_contains("continues with the changes in its layer");
    stage.sh("cat made; echo more >> made").succeeds().stdout("new\n");
    // While it is up, `up` means the same session.
    let same = stage.world.run(["--trust", "up", "--name", NAME]).succeeds();
    same.stderr_contains("is already running");
    stage.world.run(["rm", NAME]).code(1).stderr_contains("unapplied changes");
    stage.sh("cat made").succeeds().stdout("new\nmore\n");
    stage.down().succeeds();
    assert!(!stage.world.has("project/made"));
    let refused = stage.world.run(["--trust", "--cow=false", "up", "--name", NAME]).code(125);
    refused.stderr_contains("without its copy-on-write layer");
    stage.world.run(["rm", NAME]).code(1).stderr_contains("unapplied changes");
    of(&stage, &["apply", "--yes"]).succeeds();
    stage.world.run(["rm", NAME]).succeeds();
}

/// Without a name, the session has the name of its directory, which an existing layer may have, too.
#[test]
fn up_without_a_name_continues_with_the_layer_of_the_name_that_it_gets() {
    let stage = stage("");
    let (world, named) = (&stage.world, ["exec", "-s", "project", "sh", "-c"]);
    world.run(["--trust", "--cow", "up", "--name", "project"]).succeeds();
    world.run(named.iter().chain(&["echo new > made"])).succeeds();
    world.run(["down", "project"]).succeeds();
    // The session record is gone, the layer is not.
    world.host(["sh", "-c", "rm ~/.local/share/agent-sandbox/sessions.db*"]).succeeds();
    let again = world.run(["--trust", "up"]).succeeds();
    again.stderr_contains("continues with the changes in its layer");
    world.run(named.iter().chain(&["cat made; echo more >> made"])).succeeds().stdout("new\n");
    assert!(!world.has("project/made"));
    // The control: without a layer of that name, it writes into the project.
    world.run(["rm", "--yes", "project"]).succeeds();
    world.run(["--trust", "up"]).succeeds().stderr_lacks("continues");
    world.run(named.iter().chain(&["echo new > made"])).succeeds();
    assert!(world.has("project/made"));
    world.run(["rm", "--yes", "project"]).succeeds();
    world.run(["prune", "--yes"]).succeeds();
}

/// `--trust` is bound to the accepted content, in a container as elsewhere.
#[test]
fn restart_refuses_a_file_that_opens_more_than_it_did() {
    let stage = stage("");
    stage.bring_up().succeeds();
    stage.world.run(["restart", NAME]).succeeds();
    stage.world.write("shared/file", "");
    stage.configure("shared_dirs = { x = { host = '../shared', guest = '/x' } }");
    stage.world.run(["restart", NAME]).code(125).stderr_contains("not trusted");
    stage.sh("ls /x").fails();
    stage.world.run(["--trust", "restart", NAME]).succeeds();
    stage.sh("ls /x").succeeds();
}

#[test]
fn without_the_key_changes_land_at_once() {
    let stage = stage("");
    stage.bring_up().succeeds().stderr_lacks("copy-on-write layer");
    stage.sh(CHANGE).succeeds();
    assert_eq!(stage.world.read("project/made"), "new\n");
    stage.world.run(["ps"]).succeeds().stdout_contains("in the project");
}

#[test]
fn every_writable_mount_is_kept_apart_by_cow_and_the_workspace_alone_by_its_own_key() {
    let shared = "shared_dirs = { x = { host = '../shared', guest = '/x' } }\n";
    for (key, apart) in [("cow = true", true), ("workspace.cow = 'overlay'", false)] {
        let stage = stage(&format!("{shared}{key}"));
        stage.world.write("shared/file", "old\n");
        chown(stage.world.path("shared"), Some(1000), Some(1000)).unwrap();
        stage.bring_up().succeeds();
        stage.sh("echo new > /workspace/made; echo new > /x/made").succeeds();
        assert!(!stage.world.has("project/made"));
        assert_eq!(stage.world.has("shared/made"), !apart, "{key}");
        stage.down().succeeds();
        of(&stage, &["apply", "--yes"]).succeeds();
        assert!(stage.world.has("project/made") && stage.world.has("shared/made"));
    }
}

#[test]
fn a_running_session_is_held_still_for_a_snapshot_and_for_apply() {
    let stage = up("cow = true");
    stage.sh("echo first > state; (while :; do date > tick; done) > /dev/null 2>&1 &").succeeds();
    of(&stage, &["snapshot", "early"]).succeeds();
    assert_eq!(stage.inspect("{{.State.Paused}}"), "false", "it goes on");
    stage.sh("echo second > state").succeeds();
    of(&stage, &["restore", "early"]).fails().stderr_contains("down box");
    of(&stage, &["apply", "--live", "--yes", "state"]).succeeds();
    assert_eq!(stage.world.read("project/state"), "second\n");
    assert_eq!(stage.inspect("{{.State.Paused}}"), "false");
    stage.sh("cat state").succeeds().stdout("second\n");
    stage.down().succeeds();
    of(&stage, &["restore", "early"]).succeeds();
    stage.bring_up().succeeds();
    stage.sh("cat state").succeeds().stdout("first\n");
}

/// The process that paused a container is killed: the container is resumed.
#[test]
fn a_killed_apply_leaves_the_container_running() {
    let stage = up("cow = true");
    stage.sh("for i in $(seq 200); do echo $i > f$i; done").succeeds();
    // Killed in the middle of its writes.
    let apply = ["apply", "--live", "--yes", "-s", NAME];
    let killed = stage.world.killed_with(&[], "renameat2,linkat", 20, &apply);
    assert!(!killed.status().success(), "{killed}");
    let paused = || stage.inspect("{{.State.Paused}}") == "true";
    while paused() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    stage.sh("cat f7").succeeds().stdout("7\n");
    of(&stage, &["apply", "--live", "--yes"]).succeeds();
    assert_eq!(stage.world.read("project/f200"), "200\n");
}

/// The answers are those of a local session.
#[test]
fn what_the_host_changes_meanwhile_is_merged_or_stops() {
    let stage = up("cow = true");
    stage.sh("echo four >> kept; echo inside > gone").succeeds();
    stage.world.write("project/gone", "outside\n");
    stage.down().succeeds();
    stage.world.write("project/kept", "zero\none\ntwo\nthree\n");
    of(&stage, &["apply", "--yes"]).code(1).stderr_contains("conflict: gone");
    assert_eq!(stage.world.read("project/gone"), "outside\n");
    of(&stage, &["apply", "--yes", "kept"]).succeeds();
    assert_eq!(stage.world.read("project/kept"), "zero\none\ntwo\nthree\nfour\n");
}

#[test]
fn layer_survives_a_restart_of_the_container_and_is_found_without_a_record() {
    let stage = up("cow = true");
    stage.sh("echo new > made").succeeds();
    stage.docker.run(["restart", "--time", "1", &stage.container()]).succeeds();
    stage.sh("cat made; echo more >> made").succeeds().stdout("new\n");
    let (container, id) = (stage.container(), stage.id().unwrap());
    let record = stage.world.path("home/.local/share/agent-sandbox/sessions.db");
    let forget = "DELETE FROM thing; DELETE FROM session;";
    stage.world.host(["sqlite3", &record.display().to_string(), forget]).succeeds();
    stage.world.run(["prune", "--yes"]).succeeds().stderr_contains("volumes/");
    stage.docker.run(["inspect", &container]).fails();
    assert_eq!(volumes(&stage, &id), "");
    // Its changes are not lost with the record.
    of(&stage, &["apply", "--yes"]).succeeds();
    assert_eq!(stage.world.read("project/made"), "new\nmore\n");
    stage.world.run(["rm", NAME]).succeeds();
}

/// overlayfs splits its mount options at commas and colons.
#[test]
fn projects_with_odd_names_are_kept_apart() {
    for name in ["a:b", "a,ro", "a b", "a\\b", "ü\"'"] {
        let stage = Stage::new("");
        let text = stage.world.read("project/sandbox.toml");
        stage.world.write(format!("{name}/sandbox.toml"), format!("{text}cow = true\n"));
        chown(stage.world.path(name), Some(1000), Some(1000)).unwrap();
        let dir = stage.world.path(name).display().to_string();
        let run = |words: &[&str]| stage.world.run(["-C", &dir].iter().chain(words).copied());
        run(&["--trust", "up", "--name", NAME]).succeeds();
        stage.sh("echo new > /workspace/made").succeeds();
        assert!(!stage.world.has(format!("{name}/made")), "{name}");
        run(&["down", NAME]).succeeds();
        run(&["apply", "--yes", "-s", NAME]).succeeds();
        assert_eq!(stage.world.read(format!("{name}/made")), "new\n");
    }
}

#[test]
fn rules_hold_in_the_layer_too() {
    let stage = stage("cow = true\n[filesystem]\nro = ['dir']\nexclude = ['gone']");
    // Git acts as the owner of the project.
    stage.world.host(["chown", "-R", "0:0", "../project"]).succeeds();
    stage.world.clone().git_init("project");
    stage.world.host(["chown", "-R", "1000:1000", "../project"]).succeeds();
    stage.bring_up().succeeds();
    for script in [
        "echo x > dir/deep",
        "mv dir away",
        "rm -rf .git/hooks; echo x > .git/hooks/post-checkout",
        "echo x >> .git/config",
        "grep . gone",
    ] {
        assert!(!stage.sh(script).status().success(), "{script}");
    }
    stage.sh("echo x > .git/description; echo y > made").succeeds();
    of(&stage, &["diff", "--name-only"]).succeeds().stdout(".git/description\nmade\n");
    // No directory of the base is moved away as a whole. Unreadable content stays in place.
    stage.sh("mv .git .gone").fails();
    stage.sh("ls .git/config .git/hooks").succeeds();
}

#[test]
fn what_cannot_be_kept_apart_is_refused_with_the_reason() {
    for (config, why) in [
        ("cow = 'agentfs'", "a container can outlive it"),
        ("workspace.cow = 'agentfs'", "a container can outlive it"),
        (
            "cow = true\nagent = { command = 'sleep', args = ['9'], init = 'exec' }",
            "PID 1 checks the directory",
        ),
        ("cow = true\nfilesystem = { ro = ['dir'], rw = ['dir/new'] }", "cannot have a layer"),
        ("cow = true\nmounts = [{ host = 'FILE', container = '/f', mode = 'rw' }]", "single file"),
    ] {
        let stage = stage("");
        std::fs::create_dir(stage.world.path("project/dir/new")).unwrap();
        let file = stage.world.path("project/kept").display().to_string();
        stage.configure(&config.replace("FILE", &file));
        stage.bring_up().code(125).stderr_contains(why).stderr_contains("hint: ");
        assert!(stage.id().is_none() || stage.containers().is_empty());
    }
    // The engine's own file systems cannot be a base: mounts below them would be missing.
    let stage = stage("cow = true");
    let point = stage.world.path("project/dir").display().to_string();
    stage.world.host(["mount", "-t", "tmpfs", "tmpfs", &point]).succeeds();
    let run = stage.bring_up();
    stage.world.host(["umount", &point]).succeeds();
    run.code(125).stderr_contains("is mounted in it");
    stage.bring_up().succeeds();
}

/// C4 for a base: replaced by a link between two starts.
#[test]
fn c4_a_base_that_was_swapped_is_not_taken() {
    let stage = stage("cow = true");
    stage.world.write("home/diary/secret", "dear\n");
    // Unsupported rules would stop it as well.
    stage.world.write("home/diary/sandbox.toml", "");
    stage.bring_up().succeeds();
    stage.refuses_swapped("project", "home/diary");
    std::fs::remove_file(stage.world.path("project")).unwrap();
    std::fs::rename(stage.world.path("moved"), stage.world.path("project")).unwrap();
    stage.bring_up().succeeds();
    stage.sh("ls secret").fails();
}

/// Killed at a few steps: nothing stays mounted, and the next command continues with the layer.
#[test]
fn up_that_is_killed_leaves_the_layer_to_the_next_command() {
    let stage = stage("cow = true");
    let calls = "mkdir,mkdirat,connect,fdatasync,rename,renameat2";
    let mut killed = 0;
    for step in (1..60).step_by(testkit::rounds(9, 1)) {
        let run = stage.world.killed_at(calls, step, &["--trust", "up", "--name", NAME]);
        killed += usize::from(!run.status().success());
        stage.world.run(["down", NAME]);
        let id = stage.id().unwrap_or_default();
        assert!(id.is_empty() || volumes(&stage, &id).is_empty(), "after step {step}");
    }
    assert!(killed > 2, "{killed}");
    stage.bring_up().succeeds();
    stage.sh("echo new > made").succeeds();
    stage.down().succeeds();
    of(&stage, &["diff", "--name-only"]).succeeds().stdout("made\n");
}

/// Mode bits that have an effect only on files of root.
fn mode(stage: &Stage, path: &str) -> u32 {
    std::fs::metadata(stage.world.path(path)).unwrap().permissions().mode() & 0o7777
}
