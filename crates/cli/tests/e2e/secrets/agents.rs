//! Agents that get the proxy's address in their settings. Stand-in agents print their settings.

use std::ffi::OsString;

use testkit::{Run, World};

use super::provider::KEY;

/// Stand-in for Codex that prints its arguments, then its settings.
const CODEX: &str = "#!/bin/sh\necho \"words: $*\"\ncat \"${CODEX_HOME:-$HOME/.codex}/config.toml\" 2>/dev/null\nexit 0\n";
const OURS: &str = "[model_providers.agent-sandbox]";

fn world(provider: &str, variable: &str) -> World {
    let config = format!(
        "[secrets.model]\nmode = 'proxy'\nenv_var = '{variable}'\nprovider = '{provider}'\nupstream_url = 'http://127.0.0.1:9'\n"
    );
    let world = World::new()
        .file("home/policy.toml", config)
        .exec_file("bin/codex", CODEX)
        .dir("home/.codex")
        .dir("home/.gemini");
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let world = world.env("PATH", path);
    world.run_with_input(KEY, ["secret", "set", "model"]).succeeds();
    world
}

fn run(world: &World, words: &[&str]) -> Run {
    let policy = [OsString::from("-c"), world.path("home/policy.toml").into()];
    world.run(policy.into_iter().chain(words.iter().map(OsString::from)))
}

#[test]
fn codex_is_told_the_address_wherever_it_is_started() {
    for own in
        [None, Some("model = 'm'\nmodel_provider = 'mine'\n[model_providers.mine]\nname = 'x'\n")]
    {
        let world = world("openai", "OPENAI_API_KEY");
        if let Some(own) = own {
            world.write("home/.codex/config.toml", own);
        }
        run(&world, &["codex", "exec"]).succeeds().stdout_contains("words: -c model_provider=");
        for words in [
            &["sh", "-c", "codex exec"][..],
            &["env", "codex", "exec"],
            &["--cow", "sh", "-c", "codex exec"],
            &["--cow=all", "sh", "-c", "codex exec"],
        ] {
            let told = run(&world, words).succeeds();
            let told = told.stdout_contains(OURS).stdout_contains("env_key = \"OPENAI_API_KEY\"");
            told.stdout_contains("base_url = \"http://127.0.0.1:")
                .stdout_contains("model_provider = \"agent-sandbox\"")
                .stdout_contains(own.map_or("", |_| "[model_providers.mine]"));
        }
        let policy = world.path("home/policy.toml").display().to_string();
        world.run(["-c", &policy, "up"]).succeeds();
        let told = world.run(["exec", "-s", "project", "codex", "exec"]);
        let short = world.run(["--session", "project", "codex", "exec"]);
        world.run(["down", "--all"]).succeeds();
        told.succeeds().stdout_contains("words: exec").stdout_contains(OURS);
        short.succeeds().stdout_contains(OURS);
        // The control: without the secret, it has its own settings, which no run changed.
        let bare = world.run(["sh", "-c", "codex exec"]).succeeds();
        bare.stdout(&format!("words: exec\n{}", own.unwrap_or_default()));
        assert_eq!(world.has("home/.codex/config.toml"), own.is_some());
    }
}

#[test]
fn codex_is_told_where_a_variable_moves_its_settings() {
    let world = world("openai", "OPENAI_API_KEY").dir("home/moved");
    let moved = world.path("home/moved").display().to_string();
    let world = world.env("CODEX_HOME", &moved);
    world.run_with_input(KEY, ["secret", "set", "model"]).succeeds();
    run(&world, &["--rw", "~/moved", "sh", "-c", "codex"]).succeeds().stdout_contains(OURS);
    assert!(!world.has("home/moved/config.toml") && !world.has("home/.codex/config.toml"));
}

const SETTINGS: &str = "cat ${GEMINI_CLI_HOME:-$HOME}/.gemini/settings.json; \
    echo x > ${GEMINI_CLI_HOME:-$HOME}/.gemini/settings.json || echo read-only";

#[test]
fn settings_of_gemini_are_shown_read_only_with_the_key_selected() {
    for own in [
        None,
        Some("{ // mine\n  \"ui\": { \"theme\": \"x\" },\n}\n"),
        Some("{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}}}"),
    ] {
        for moved in [false, true] {
            let mut world = world("gemini", "GEMINI_API_KEY").dir("home/moved/.gemini");
            let dir = if moved { "home/moved/.gemini" } else { "home/.gemini" };
            if moved {
                let home = world.path("home/moved");
                world = world.env("GEMINI_CLI_HOME", home);
                world.run_with_input(KEY, ["secret", "set", "model"]).succeeds();
            }
            let file = format!("{dir}/settings.json");
            if let Some(own) = own {
                world.write(&file, own);
            }
            let told = run(&world, &["--rw", "~/moved", "sh", "-c", SETTINGS]).succeeds();
            told.stdout_contains("\"selectedType\":\"gemini-api-key\"")
                .stdout_contains("read-only");
            let after = world.has(&file).then(|| world.read(&file));
            assert_eq!(after.as_deref(), own, "moved: {moved}");
        }
    }
}

#[test]
fn runs_at_the_same_time_share_settings_that_were_made_for_them() {
    let world = world("gemini", "GEMINI_API_KEY");
    let wait = "touch $1; until [ -e go ]; do sleep 0.05; done; cat ~/.gemini/settings.json";
    let policy = world.path("home/policy.toml").display().to_string();
    let long = world.spawn(["-c", &policy, "sh", "-c", wait, "sh", "long"]);
    testkit::until("the first run", || world.has("project/long").then_some(()));
    run(&world, &["sh", "-c", "cat ~/.gemini/settings.json"]).succeeds();
    let late = world.spawn(["-c", &policy, "sh", "-c", wait, "sh", "late"]);
    testkit::until("the last run", || world.has("project/late").then_some(()));
    world.write("project/go", "");
    for process in [long, late] {
        process.wait().succeeds().stdout_contains("gemini-api-key");
    }
    assert!(!world.has("home/.gemini/settings.json"), "the last one removes it");
}
