//! `apply` takes over what was asked for, and nothing else.

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
    world
        .run(["apply"])
        .code(1)
        .stderr_contains("120 files will be deleted")
        .stderr_contains("--yes");
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
    world.run(["undo"]);
    // Asking for the status refreshed the index: that is the host's own change since.
    world.run(["undo", "--partial"]);
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("start\n");
}

#[test]
fn an_index_that_the_host_refreshed_holds_nothing_back() {
    let world = World::new().file("project/a", "1\n").git_init("project");
    change(&world, "echo 2 >> a; git commit -qam inside");
    world.host(["sh", "-c", "sleep 1; touch a; git status --porcelain"]).succeeds().stdout("");
    world.run(["apply"]).succeeds().stderr_contains("git reset");
    assert_eq!(world.read("project/a"), "1\n2\n");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("inside\n");
    world.host(["git", "reset", "-q"]).succeeds();
    world.host(["git", "status", "--porcelain"]).succeeds().stdout("");
    // Named, it is a conflict like any other.
    world.run(["apply", ".git/index"]).code(1);
}
