//! `config show`, `config path`, `config schema` and `--debug`.

use serde_json::Value;
use testkit::World;

#[track_caller]
fn json(world: &World, args: &[&str]) -> Value {
    let run = world.run(args).succeeds();
    serde_json::from_str(&run.output()).unwrap_or_else(|error| panic!("{error}\n{run}"))
}

fn world() -> World {
    World::new().file("project/a", "").file("home/.npmrc", "token").env("GITHUB_TOKEN", "hush-hush")
}

#[test]
fn config_show_names_every_value_and_its_line() {
    let world = world()
        .file(
            "home/.config/agent-sandbox/config.toml",
            "network = false\n[env]\nCOLOUR = \"blue-value\"\n",
        )
        .file(
            "project/.agent-sandbox.json",
            "{\n\"filesystem\": {\"exclude\": [\"a\"]},\n\"commands\": {\"ls\": false}}",
        );
    let run = world.run(["--rw", "~/.npmrc", "config", "show"]).succeeds();
    for text in [
        "config.toml:1",
        ".agent-sandbox.json:2 `a`",
        ".agent-sandbox.json:3",
        "preset @secrets `~/.npmrc`",
        "GITHUB_TOKEN",
        "COLOUR",
        "@git-strict",
    ] {
        assert!(run.output().contains(text), "{text}\n{run}");
    }
    let shown = run.output();
    assert!(!shown.contains("hush-hush") && !shown.contains("blue-value"), "{run}");
    let value = json(&world, &["--json", "config", "show"]);
    assert_eq!(value["network"]["value"], "off");
    let hidden =
        value["paths"].as_array().unwrap().iter().filter(|path| path["access"] == "exclude");
    let patterns: Vec<_> = hidden.map(|path| path["pattern"].as_str().unwrap()).collect();
    assert!(patterns.contains(&"~/.npmrc") && patterns.contains(&"a"), "{patterns:?}");
    assert!(!value.to_string().contains("hush-hush") && !value.to_string().contains("blue-value"));
}

#[test]
fn config_show_ends_with_125_when_a_file_is_broken() {
    let world = world().file("project/.agent-sandbox.json", "{ \"netwrk\": true }");
    world.run(["config", "show"]).code(125).stdout("").stderr_contains("network");
    world.run(["why", "a"]).code(125);
}

#[test]
fn config_path_tells_where_files_are_and_whether_they_are_obeyed() {
    let world = world().file("home/.config/agent-sandbox/config.json", "{}");
    let state = |world: &World, args: &[&str], name: &str| -> String {
        let mut line = vec!["--json", "config", "path"];
        line.extend(args);
        let value = json(world, &line);
        let files = value["files"].as_array().unwrap();
        let named = files.iter().find(|file| file["path"].as_str().unwrap().ends_with(name));
        named.map(|file| file["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert_eq!(state(&world, &[], "agent-sandbox/config.json"), "read");
    assert_eq!(state(&world, &[], "sandbox.toml"), "missing");
    world.write("project/sandbox.toml", "docker = false\n");
    assert_eq!(state(&world, &[], "sandbox.toml"), "read, needs no trust: it widens nothing");
    world.write("project/sandbox.toml", "filesystem.rw = [\"~/docs\"]\n");
    assert_eq!(state(&world, &[], "sandbox.toml"), "not trusted: it widens the policy");
    assert_eq!(state(&world, &["--trust"], "sandbox.toml"), "read, trusted for this command");
    world.run(["trust"]).succeeds();
    assert_eq!(state(&world, &[], "sandbox.toml"), "read, trusted");
    world.write("project/sandbox.toml", "docker = \n");
    assert_eq!(state(&world, &[], "sandbox.toml"), "invalid");
    world.run(["config", "path"]).succeeds().stdout_contains("invalid");
}

#[test]
fn config_schema_is_a_json_schema() {
    let value = json(&World::new(), &["config", "schema"]);
    assert!(value["properties"]["filesystem"].is_object(), "{value:#}");
}

#[test]
fn the_explaining_commands_need_no_bubblewrap() {
    // bwrap does not have to be in `PATH`, because no sandbox is started.
    let world = world().env("PATH", "/nonexistent");
    world.run(["config", "show"]).succeeds();
    world.run(["config", "path"]).succeeds();
    world.run(["why", "a"]).succeeds().stdout_contains("writable");
}

#[test]
fn debug_tells_every_step_without_a_flood() {
    let world = world().file("project/.agent-sandbox.json", "{\"filesystem\": {\"ro\": [\"a\"]}}");
    let run = world.run(["--debug", "--exclude", "nothing", "true"]).succeeds();
    for text in [
        "config-find: looked for config.json",
        "config-load: project",
        "config-merge: network On (built-in default)",
        "config-merge: ro a (",
        "paths: ro `a` is ",
        "which does not exist",
        "access: ro ",
        "command-wrappers: git covers",
        "bwrap-args: --unshare-user",
        "environment: hidden GITHUB_TOKEN",
    ] {
        assert!(run.messages().contains(text), "{text}\n{run}");
    }
    let lines = run.messages().lines().count();
    assert!(lines < 200, "{lines} lines\n{run}");
    assert!(!run.messages().contains(".netrc"), "a preset's line for what does not exist\n{run}");
    assert!(!run.messages().contains("hush-hush"), "{run}");
}
