//! One command with a layer, and the summary at its end.

use testkit::World;

use super::{cow, place};

#[test]
fn changes_stay_apart_when_cow_is_on() {
    let world = place().file("project/a", "one\n").file("project/d/x", "x").dir("project/e");
    let script = "echo two >> a; rm -r d; mv e f; echo new > n; cat a; ls";
    cow(&world, &[], script).succeeds().stdout("one\ntwo\na\nf\nn\n");
    assert_eq!(world.read("project/a"), "one\n");
    assert!(world.has("project/d/x") && world.has("project/e"));
    assert!(!world.has("project/n") && !world.has("project/f"));
    world.run(["sh", "-c", script]).succeeds();
    assert_eq!(world.read("project/a"), "one\ntwo\n", "without --cow they do not");
}

#[cfg(feature = "setup")]
#[test]
fn bubblewrap_alone_does_with_agentfs_and_refuses_an_overlay() {
    let world = place().file("project/a", "one\n").env("AGENT_SANDBOX_MOUNTS", "bwrap");
    let run = world.run(["--cow=overlay", "sh", "-c", "echo two >> a"]).code(125);
    run.stderr_contains("bubblewrap alone cannot mount an overlay");
    assert!(sessions(&world).is_empty());
    cow(&world, &["-s", "fix"], "echo two >> a; cat a").succeeds().stdout("one\ntwo\n");
    assert_eq!(world.read("project/a"), "one\n");
    world.run(["ps"]).succeeds().stdout_contains("agentfs");
    world.run(["rm", "--yes", "fix"]).succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn agentfs_keeps_changes_apart_too() {
    let world = place().file("project/a", "one\n").file("project/d/x", "x").git_init("project");
    let run = |flags: &[&str], script: &str| {
        world.run([&["--cow=agentfs", "-s", "fix"], flags, &["sh", "-c", script]].concat())
    };
    run(&[], "echo two >> a; mv d e; echo n > n; cat a; ls")
        .succeeds()
        .stdout("one\ntwo\na\ne\nn\n");
    run(&[], "cat a; git add -A && git commit -qm x && git status --short").succeeds();
    assert_eq!(world.read("project/a"), "one\n");
    world.host(["git", "status", "--short"]).succeeds().stdout("");
    world.run(["diff", "-s", "fix", "--name-only"]).succeeds().stdout_contains("e/x");
    world.run(["snapshot", "-s", "fix", "one"]).succeeds();
    run(&[], "rm -r e").succeeds();
    world.run(["restore", "-s", "fix", "one"]).succeeds();
    run(&[], "cat e/x").succeeds().stdout("x");
    world.run(["fork", "-s", "fix", "more"]).succeeds();
    world
        .run(["--cow=overlay", "-s", "fix", "true"])
        .code(125)
        .stderr_contains("uses agentfs, not overlay");
    world.run(["rm", "--yes", "fix"]).succeeds();
    world.run(["-s", "more", "cat", "e/x"]).succeeds().stdout("x");
    world.run(["rm", "--yes", "more"]).succeeds();
    let mounts = world.host(["cat", "/proc/self/mounts"]).succeeds();
    mounts.stdout_lacks(world.path("").to_str().expect("a text"));
}

/// Returns the directories of sessions.
fn sessions(world: &World) -> Vec<String> {
    let dir = world.path("home/.local/share/agent-sandbox/sessions");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_session_goes_on_when_it_is_named() {
    let world = place().file("project/a", "one\n");
    cow(&world, &["--session", "fix"], "echo two >> a; mkdir d; echo x > d/x").succeeds();
    cow(&world, &["-s", "fix"], "cat a d/x; rm -r d").succeeds().stdout("one\ntwo\nx\n");
    world.run(["-s", "fix", "sh", "-c", "cat a; ls"]).succeeds().stdout("one\ntwo\na\n");
    cow(&world, &[], "cat a").succeeds().stdout("one\n");
    assert_eq!(sessions(&world).len(), 1, "a session without changes leaves nothing behind");
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn the_end_says_what_changed_and_what_to_do_next() {
    let world = place().file("project/a", "one\ntwo\n").git_init("project");
    let script = "echo three >> a; echo all: > Makefile; git add -A; git commit -qm x";
    let run = cow(&world, &["-s", "fix"], script).succeeds();
    let said = run.messages();
    let later = said.find("Makefile").expect("what runs code later is named");
    let sum = said.find("session fix: 2 files changed, 2 lines added, 0 removed, and").unwrap();
    assert!(later < sum, "what runs code later comes first:\n{said}");
    run.stderr_contains("agent-sandbox diff -s fix")
        .stderr_contains("agent-sandbox apply -s fix")
        .stderr_contains("agent-sandbox discard -s fix");
    world.host(["git", "status", "--short"]).succeeds().stdout("");
    cow(&world, &[], "true").succeeds().stderr_contains("no changes");
}

#[test]
fn what_the_host_changes_meanwhile_is_reported() {
    let world = place().file("project/a", "one\n").file("project/b", "one\n");
    let script = "echo two >> a; echo two >> b; echo ready; read line";
    let mut run = world.spawn(["--cow", "sh", "-c", script]);
    run.wait_for("ready");
    world.write("project/b", "changed on the host\n");
    run.send("go\n");
    let run = run.wait().succeeds();
    run.stderr_contains("changed on the host meanwhile")
        .stderr_contains("project/b")
        .stderr_lacks("project/a");
}

#[test]
fn any_path_can_be_kept_apart() {
    for name in ["a b", "a:b", "a,b", r"a\b", "ä\n", r"\:,lowerdir=", "%s"] {
        let world = place().file(format!("{name}/f"), "1").cwd(name);
        cow(&world, &[], "echo 2 > f; cat f").succeeds().stdout("2\n");
        assert_eq!(world.read(format!("{name}/f")), "1", "{name:?}");
    }
}

#[test]
fn writable_places_of_the_user_are_kept_apart_and_caches_are_not_unless_all() {
    let world = place()
        .file("outside/f", "1\n")
        .file("outside-file", "1\n")
        .file("home/.cargo/registry/c", "1\n");
    let (dir, file) = (world.path("outside"), world.path("outside-file"));
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    let script =
        format!("echo 2 > {dir}/f; echo 2 > {file}; echo 2 > ~/.cargo/registry/c; cat {file}");
    let flags = ["--rw", dir, "--rw", file];
    let all = [&["--cow=all"], &flags[..], &["sh", "-c", &script]].concat();
    let run = world.run(all).succeeds();
    run.stdout("2\n").stderr_contains("3 files changed");
    for path in ["outside/f", "outside-file", "home/.cargo/registry/c"] {
        assert_eq!(world.read(path), "1\n", "{path}");
    }
    cow(&world, &flags, &script).succeeds().stderr_contains("2 files changed");
    assert_eq!(world.read("outside/f"), "1\n");
    assert_eq!(world.read("outside-file"), "1\n");
    assert_eq!(world.read("home/.cargo/registry/c"), "2\n");
}

#[test]
fn protected_paths_stay_protected_in_a_layer() {
    let world = place()
        .file("project/vendor/lib", "1")
        .file("project/vendor/cache/x", "1")
        .file("project/.env", "s3cret")
        .git_init("project");
    let flags = ["--ro", "vendor", "--rw", "vendor/cache", "--exclude", ".env"];
    cow(&world, &flags, "cat .env; echo 2 > vendor/lib").fails().stdout("");
    cow(&world, &flags, "echo evil > .git/hooks/pre-commit").fails();
    cow(&world, &flags, "mv .git g").fails();
    cow(&world, &flags, "echo 2 > vendor/cache/x; cat vendor/cache/x").succeeds().stdout("2\n");
    assert_eq!(world.read("project/vendor/cache/x"), "1", "a writable place in a read-only one");
    cow(&world, &[], "echo 2 > vendor/lib; cat .env").succeeds().stdout("s3cret");
}

#[test]
fn two_runs_in_one_session_are_refused_and_two_sessions_are_not() {
    let world = place().file("project/a", "one\n");
    let mut first =
        world.spawn(["-s", "one", "sh", "-c", "echo 1 > a; echo ready; read line; cat a"]);
    first.wait_for("ready");
    let refused = cow(&world, &["-s", "one"], "true").code(125);
    refused.stderr_contains("session `one` is in use by process");
    cow(&world, &["-s", "two"], "cat a; echo 2 > a; cat a").succeeds().stdout("one\n2\n");
    first.send("go\n");
    first.wait().succeeds().stdout_contains("\n1\n");
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn a_configuration_can_ask_for_it_and_a_project_cannot_turn_it_off() {
    let world = place().file("project/a", "1").file("project/sandbox.toml", "cow = true\n");
    world.run(["sh", "-c", "echo 2 > a"]).succeeds().stderr_contains("1 file changed");
    assert_eq!(world.read("project/a"), "1");
    world.run(["--cow=false", "sh", "-c", "echo 2 > a"]).succeeds();
    assert_eq!(world.read("project/a"), "2\n");

    let world = place()
        .file("home/.config/agent-sandbox/config.toml", "cow = true\n")
        .file("project/sandbox.toml", "cow = false\n");
    let refused = world.run(["true"]).code(125);
    refused.stderr_contains("`cow` writes straight into the tree");
    world.run(["--trust", "sh", "-c", "echo 2 > a"]).succeeds();
    assert!(world.has("project/a"));
}
