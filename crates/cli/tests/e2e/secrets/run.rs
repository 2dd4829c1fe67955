//! Secrets of a run, in both modes.

use std::ffi::OsString;

use testkit::{Run, World};

use super::provider::{KEY, Provider};

/// Asks the provider as an SDK does.
const ASK: &str = "curl -sS -H \"x-api-key: $ANTHROPIC_API_KEY\" \"$ANTHROPIC_BASE_URL/v1/models\"";

fn policy(world: &World) -> [OsString; 2] {
    ["-c".into(), world.path("home/policy.toml").into()]
}

fn sh(world: &World, script: &str) -> Run {
    world.run(policy(world).into_iter().chain(["sh", "-c", script].map(OsString::from)))
}

#[test]
fn the_proxy_sends_the_key_that_the_command_does_not_hold() {
    for network in ["network = true", "network = false", "network = { allowed_hosts = [] }"] {
        let provider = Provider::new();
        let world = provider.world(network);
        world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
        sh(&world, ASK).succeeds().stdout("taken");
        let seen = provider.seen();
        assert!(seen.len() == 1 && seen[0].contains(&format!("x-api-key: {KEY}")), "{seen:?}");
        assert!(!seen[0].contains("session-"), "{network}: the token stays here");
        let inside = sh(&world, "env; tr '\\0' '\\n' < /proc/self/environ").succeeds();
        inside.stdout_contains("ANTHROPIC_API_KEY=session-").stdout_lacks(KEY);
    }
}

#[test]
fn a_key_of_the_callers_environment_stays_there() {
    let provider = Provider::new();
    let world = provider.world("").env("ANTHROPIC_API_KEY", KEY).env("COPY", format!("x{KEY}y"));
    sh(&world, ASK).succeeds().stdout("taken");
    sh(&world, "env").succeeds().stdout_contains("ANTHROPIC_API_KEY=session-").stdout_lacks(KEY);
    // Without the rule, the command has both.
    let bare = world.run(["sh", "-c", "env"]).succeeds();
    bare.stdout_contains(&format!("ANTHROPIC_API_KEY={KEY}")).stdout_contains("COPY=");
}

#[test]
fn an_injected_secret_is_a_variable_and_comes_from_where_it_is() {
    let config = |source: &str| format!("[secrets.github]\nenv_var = 'GITHUB_TOKEN'\n{source}\n");
    for (source, expected) in [
        ("from_file = 'token'", "in-a-file\n"),
        ("from_env_file = '.env'", "in-a-line\n"),
        ("from_command = ['echo', 'from a program']", "from a program\n"),
        ("from_store = 'kept'", "in-the-store\n"),
        ("from_env = 'MINE'", "of-the-caller\n"),
    ] {
        let world = World::new()
            .file("home/policy.toml", config(source))
            .file("home/token", "in-a-file\n")
            .file("home/.env", "A=b\nGITHUB_TOKEN='in-a-line'\n")
            .env("MINE", "of-the-caller");
        world.run_with_input("in-the-store", ["secret", "set", "kept"]).succeeds();
        sh(&world, "echo \"$GITHUB_TOKEN\"").succeeds().stdout(expected);
    }
    let missing = World::new().file("home/policy.toml", config("from_file = 'nowhere'"));
    sh(&missing, "true").code(125).stderr_contains("`github` cannot be had");
}

#[test]
fn a_new_key_is_used_without_a_new_run() {
    let provider = Provider::new();
    let world = provider.world("");
    world.run_with_input("sk-old-0123456789", ["secret", "set", "anthropic"]).succeeds();
    let script = format!("{ASK}; echo; read go; {ASK}");
    let mut running =
        world.spawn(policy(&world).into_iter().chain(["sh", "-c", &script].map(OsString::from)));
    running.wait_for("refused");
    world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    running.send("go\n");
    running.wait().succeeds().stdout("refused\ntaken");
}

#[test]
fn a_custom_provider_gets_its_key_where_it_looks_for_it() {
    let provider = Provider::new();
    let config = format!(
        "[secrets.forge]\nmode = 'proxy'\nenv_var = 'FORGE_TOKEN'\nbase_url_var = 'FORGE_URL'\n\
         header = 'x-forge'\nformat = 'Token {{}}'\nupstream_url = '{}'\nroutes = ['GET /repos/**']\n",
        provider.url
    );
    let world = World::new().file("home/policy.toml", config).env("FORGE_TOKEN", KEY);
    let ask = "curl -sS -o /dev/null -w '%{http_code} ' -H \"authorization: Bearer $FORGE_TOKEN\"";
    let script = format!(
        "{ask} $FORGE_URL/repos/a; {ask} $FORGE_URL/users; {ask} -X DELETE $FORGE_URL/repos/a"
    );
    sh(&world, &script).succeeds().stdout("200 403 403 ");
    assert!(provider.seen()[0].contains(&format!("x-forge: Token {KEY}")), "{:?}", provider.seen());
}

#[test]
fn what_is_not_clear_is_refused_before_anything_runs() {
    for (config, message) in [
        (
            "[secrets.a]\nmode = 'proxy'\nenv_var = 'A_KEY'\n",
            "nothing says whose the secret `a` is",
        ),
        ("[secrets.a]\nenv_var = 'A'\nfrom_env = 'B'\nfrom_file = 'c'\n", "a secret has one place"),
        ("[secrets.a]\nenv_var = 'A'\nmodels = ['x']\n", "`models` is the proxy's"),
        ("[secrets.a]\nenv_var = 'A'\n", "the variable `A` is not set"),
        ("[secrets.a]\nenv_vr = 'A'\n", "env_var"),
    ] {
        let world = World::new().file("home/policy.toml", config).env("A_KEY", "value-of-a");
        sh(&world, "echo ran").code(125).stdout("").stderr_contains(message);
    }
}

#[test]
fn a_strangers_file_uses_no_secret() {
    let config = "[secrets.a]\nenv_var = 'A'\nfrom_file = '/etc/hostname'\n";
    let world = World::new().file("project/sandbox.toml", config);
    world.run(["true"]).code(125).stderr_contains("`secrets.a` uses a secret as `A`");
    world.run(["--trust", "true"]).succeeds();
}

#[test]
fn usage_tells_what_sandboxes_have_asked_of_providers() {
    let provider = Provider::new();
    let world = provider.world("").env("ANTHROPIC_API_KEY", KEY);
    world.run(["usage"]).succeeds().stdout("").stderr_contains("no sandbox has asked a provider");
    for _ in 0..2 {
        sh(&world, ASK).succeeds().stdout("taken");
    }
    world.run(["usage"]).succeeds().stdout_contains("PROVIDER").stdout_contains("anthropic");
    let told = world.run(["usage", "--json"]).succeeds().output();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[0]["requests"], 2, "{told}");
    assert_eq!((&told[0]["failed"], &told[1]), (&0.into(), &serde_json::Value::Null), "{told}");
    world.run(["usage", "--sandbox", "another", "--json"]).succeeds().stdout("[]\n");
    world.run(["usage", "--days", "many"]).code(2).stderr_contains("--days");
}
