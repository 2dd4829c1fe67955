//! Runs in a sub-directory of a project: the policy of the directories above holds, and so do its relative paths.

mod attacks;
mod git;

use std::os::unix::fs::symlink;

use testkit::{User, World, user};

use crate::probe::{assert_views, sh};

const POLICY: &str = r#"{
    "network": false,
    "filesystem": { "exclude": [".env"], "ro": ["sub/locked"] },
    "commands": { "wc": false },
}"#;

/// A project below the home directory, with a policy at its top. Runs start in `sub`.
fn world() -> World {
    World::new()
        .file("home/app/.agent-sandbox.jsonc", POLICY)
        .file("home/app/.env", "TOKEN=abc")
        .file("home/app/sub/.env", "OTHER=1")
        .file("home/app/sub/locked/file", "x")
        .cwd("home/app/sub")
}

#[test]
fn policy_of_a_directory_above_holds_in_a_sub_directory() {
    let world = world();
    assert_views(
        &world,
        &[],
        &[
            ("home/app/.env", "hidden"),
            ("home/app/sub/.env", "rw"),
            ("home/app/sub/locked/file", "ro"),
            ("home/app/.agent-sandbox.jsonc", "ro"),
        ],
    );
    world.run(sh("cat ../.env; grep -c : /proc/net/dev")).stdout("1\n");
    world.run(["wc", "-l", ".env"]).code(1).stderr_contains("'wc' is blocked");
    // The control: without the file, everything is as by default.
    world.host(["rm", "../.agent-sandbox.jsonc"]).succeeds();
    world.run(["cat", "../.env"]).succeeds().stdout("TOKEN=abc");
    world.run(["wc", "-c", ".env"]).succeeds();
}

#[test]
fn policy_holds_with_cwd_and_through_links() {
    let world = world().cwd("home");
    symlink("../app/sub", world.path("home/link")).unwrap_or_else(|error| panic!("{error}"));
    symlink("app/sub", world.path("home/short")).unwrap_or_else(|error| panic!("{error}"));
    let env = world.path("home/app/.env").display().to_string();
    for dir in ["app/sub", "short", "short/locked"] {
        world.run(["-C", dir, "cat", &env]).succeeds().stdout("");
    }
    world.run(["cat", &env]).succeeds().stdout("TOKEN=abc");
}

#[test]
fn a_nearer_file_adds_restrictions_and_loosens_only_with_trust() {
    let world = world().file("home/app/sub/sandbox.toml", "filesystem.exclude = ['.env']\n");
    let views = [("home/app/.env", "hidden"), ("home/app/sub/.env", "hidden")];
    assert_views(&world, &[], &views);
    world.write("home/app/sub/sandbox.toml", "network = true\ncommands.wc = true\n");
    let run = world.run(["true"]).code(125);
    let nearer = world.path("home/app/sub/sandbox.toml").display().to_string();
    run.stderr_contains("`network` turns the network on")
        .stderr_contains("commands.wc")
        .stderr_contains(&format!("agent-sandbox trust {nearer}"));
    world.run(["trust"]).code(2).stderr_contains("several").stderr_contains(&nearer);
    world.run(["trust", &nearer]).succeeds();
    world.run(["wc", "-c", ".env"]).succeeds();
    world.run(["cat", "../.env"]).succeeds().stdout("");
    world
        .run(["trust", "--revoke"])
        .succeeds()
        .stderr_contains("Revoked 1")
        .stderr_contains("Revoked 0");
    world.run(["true"]).code(125);
    world.run(["--trust", "wc", "-c", ".env"]).succeeds();
}

#[test]
fn the_project_of_trust_is_the_working_directory() {
    let world = world().dir("home/app/build");
    world.write(
        "home/app/.agent-sandbox.jsonc",
        r#"{ "filesystem": { "rw": ["build"], "ro": ["sub"] } }"#,
    );
    world.clone().cwd("home/app").run(["touch", "build/made"]).succeeds();
    let run = world.run(["true"]).code(125);
    run.stderr_contains("opens `build`, outside the project").stderr_lacks("`sub`");
    world.run(["trust"]).succeeds();
    world.run(["touch", "../build/again"]).succeeds();
}

#[test]
fn config_file_on_the_command_line_replaces_all_files() {
    let world = world().file("home/app/sub/sandbox.toml", "network = false\n");
    world.write("home/app/my.jsonc", r#"{ "filesystem": { "exclude": [".env"] } }"#);
    let views = [("home/app/.env", "ro"), ("home/app/sub/.env", "hidden")];
    assert_views(&world, &["-c", "../my.jsonc"], &views);
}

#[test]
fn config_path_show_and_why_name_the_file_above() {
    let world = world();
    let file = world.path("home/app/.agent-sandbox.jsonc").display().to_string();
    world
        .run(["config", "path"])
        .succeeds()
        .stdout_contains(&file)
        .stdout_contains("widens nothing");
    world.run(["config", "show"]).succeeds().stdout_contains(&format!("{file}:3"));
    world
        .run(["why", "../.env"])
        .succeeds()
        .stdout_contains("hidden")
        .stdout_contains(&format!("{file}:3"));
    // The flag in the answer works.
    let env = world.path("home/app/.env").display().to_string();
    world.run(["why", "../.env"]).stdout_contains(&format!("--exclude '!{env}'"));
    world.run(["--exclude", &format!("!{env}"), "cat", "../.env"]).succeeds().stdout("TOKEN=abc");
    world.run(["--json", "config", "path"]).succeeds().stdout_contains(&file);
}

#[test]
fn start_names_each_policy_above_on_a_terminal_only() {
    let world = world().file("home/app/sub/sandbox.toml", "network = false\n").env("NO_COLOR", "1");
    world.run(["true"]).succeeds().stderr("");
    let shown = |args: &[&str]| world.terminal(args).wait().output();
    let text = shown(&["true"]);
    assert!(text.contains("policy: ../.agent-sandbox.jsonc"), "{text}");
    assert!(!text.contains("sandbox.toml"), "{text}");
    assert!(!shown(&["-c", "sandbox.toml", "true"]).contains("policy:"));
    assert!(!world.clone().cwd("home/app").terminal(["true"]).wait().output().contains("policy:"));
}

#[test]
fn init_says_which_files_apply_here_too() {
    let world = world();
    world
        .run(["init"])
        .succeeds()
        .stderr_contains("home/app/.agent-sandbox.jsonc applies here, too");
    assert!(world.has("home/app/sub/.agent-sandbox.jsonc"));
}

#[test]
fn outside_home_the_search_ends_at_the_outermost_repository() {
    let world = World::new()
        .file("work/sandbox.toml", "commands.wc = false\n")
        .file("work/app/sandbox.toml", "commands.cat = false\n")
        .file("work/app/sub/file", "x")
        .cwd("work/app/sub");
    // Not a repository: only the working directory counts.
    world.run(["cat", "file"]).succeeds();
    let world = world.git_init("work/app");
    world.run(["cat", "file"]).code(1);
    world.run(["wc", "file"]).succeeds();
    let world = world.git_init("work");
    world.run(["wc", "file"]).code(1);
    world.run(["head", "file"]).succeeds();
}

#[test]
fn home_itself_counts_only_as_the_working_directory() {
    let world = World::new()
        .file("home/sandbox.toml", "commands.wc = false\n")
        .file("home/app/file", "x")
        .git_init("home");
    world.clone().cwd("home/app").run(["wc", "file"]).succeeds();
    world.clone().cwd("home").run(["wc", "app/file"]).code(1);
}

#[test]
fn a_nested_sandbox_reads_the_same_files() {
    let world = world();
    let binary = world.binary().display().to_string();
    let nested = [binary.as_str(), "cat", "../.env", "locked/file"];
    world.run(nested).succeeds().stdout("x");
    world.run([binary.as_str(), "wc", "-c", ".env"]).code(1);
}

#[test]
fn a_file_of_another_user_above_ends_with_125_and_can_be_named() {
    if user() == User::Root {
        let world = world();
        world.host(["chown", "65533", ".."]).succeeds();
        foreign(&world);
        world.host(["chown", "0", ".."]).succeeds();
        world.host(["chown", "65533", "../.agent-sandbox.jsonc"]).succeeds();
        foreign(&world);
        return;
    }
    // `/` belongs to root. A user cannot create a file there, but can read one in a directory of root.
    let world = world();
    world.run(["cat", "../.env"]).succeeds().stdout("");
}

#[track_caller]
fn foreign(world: &World) {
    world.run(["true"]).code(125).stderr_contains("another user").stderr_contains("--config");
    world
        .run(["config", "path"])
        .succeeds()
        .stdout_contains("not read: it belongs to another user");
    world.clone().cwd("home/app").run(["cat", ".env"]).succeeds().stdout("");
    world.run(["-c", "../.agent-sandbox.jsonc", "cat", ".env"]).succeeds().stdout("");
}
