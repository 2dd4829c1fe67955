//! `secret`: stored encrypted, never printed.

use testkit::World;

use super::provider::{KEY, Provider};

#[test]
fn a_stored_secret_is_listed_and_never_shown() {
    let world = World::new();
    world.run(["secret", "list"]).succeeds().stdout("").stderr_contains("no secrets");
    let stored = world.run_with_input(&format!("{KEY}\n"), ["secret", "set", "anthropic"]);
    stored.succeeds().stdout("").stderr_contains("Saved secret `anthropic` (encrypted; key");
    let listed = world.run(["secret", "list"]).succeeds();
    listed.stdout_contains("anthropic").stdout_lacks(KEY);
    let json = world.run(["secret", "list", "--json"]).succeeds();
    json.stdout_contains("\"name\": \"anthropic\"").stdout_lacks(KEY);
    let found = world.host(["grep", "-r", KEY, world.path("home").to_str().unwrap()]);
    found.code(1).stdout("");
    world.run(["secret", "rm", "anthropic"]).succeeds();
    world
        .run(["secret", "rm", "anthropic"])
        .code(1)
        .stderr_contains("secret `anthropic` is not stored");
}

#[test]
fn a_secret_comes_from_a_variable_or_from_keys_that_are_not_shown() {
    let world = World::new().env("MY_KEY", KEY);
    world.run(["secret", "set", "one", "--from-env", "MY_KEY"]).succeeds();
    world
        .run(["secret", "set", "one", "--from-env", "NO_KEY"])
        .code(1)
        .stderr_contains("`NO_KEY` is not set");
    let mut terminal = world.terminal(["secret", "set", "two"]);
    terminal.wait_for("(hidden):");
    terminal.enter("typed-in-secret");
    let run = terminal.wait().succeeds();
    run.stdout_contains("`two` (encrypted").stdout_lacks("typed-in-secret");
    let mut terminal = world.terminal(["secret", "set", "three"]);
    terminal.wait_for("(hidden):");
    terminal.keys("half\u{3}");
    terminal.wait().code(1).stdout_contains("no secret was typed");
    let names = world.run(["secret", "list"]).succeeds();
    names.stdout_contains("one").stdout_contains("two").stdout_lacks("three");
}

#[test]
fn what_cannot_be_stored_is_refused_and_changes_nothing() {
    let world = World::new();
    world
        .run_with_input("value", ["secret", "set", "../x"])
        .code(2)
        .stderr_contains("invalid secret name");
    world
        .run_with_input("\n", ["secret", "set", "x"])
        .code(1)
        .stderr_contains("the secret is empty");
    let binary = world.binary().display().to_string();
    let odd = format!(r"printf '\377' | {binary} secret set x");
    world.host(["sh", "-c", &odd]).code(1).stderr_contains("not UTF-8 text");
    world.run(["secret", "list"]).succeeds().stdout("");
}

/// Messages end up in logs and on screens that others see.
#[test]
fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
    let world = World::new();
    for words in [
        &["secret", "set", "anthropic", KEY][..],
        &["secret", "set", KEY],
        &["secret", "set", KEY, "anthropic"],
        &["secret", "set", &format!("anthropic={KEY}")],
        &["secret", "set", &format!("--{KEY}")],
        &["secret", "set", "anthropic", &format!("--value={KEY}")],
        &["secret", "set", "anthropic", "--value", KEY],
        &["secret", "set", "anthropic", "--", KEY],
        &["secret", "anthropic", KEY],
        &["secret", KEY],
        &["secret", "rm", "anthropic", KEY],
        &["secret", "test", "anthropic", KEY],
        &["secret", "set", "anthropic", "--color", KEY],
        &["secret", "set", "anthropic", &format!("--network={KEY}")],
        &["secret", "set", "anthropic", &format!("--json={KEY}")],
        &["--color", KEY, "secret", "set", "anthropic"],
        &["--cwd", "rm", "secret", "set", "anthropic", KEY],
        &["--json", "secret", "set", "anthropic", KEY],
    ] {
        let refused = world.run_with_input("", words).code(2).stderr_lacks("0123456789abcdef");
        // With `--json`, the error is the document.
        let refused = match words[0] {
            "--json" => refused.stdout_contains("\"hint\": "),
            _ => refused.stdout("").stderr_contains("hint: "),
        };
        refused.stdout_lacks("0123456789abcdef");
    }
    // The name under which the program was started changes nothing.
    let renamed = world.clone().symlink("renamed", world.binary());
    let renamed = renamed.path("renamed").display().to_string();
    let refused = world.host([&renamed, "secret", "set", "anthropic", KEY]).code(2);
    refused.stdout("").stderr_lacks("0123456789abcdef").stderr_contains("hint: ");
    let by_name = world.run_with_input("", ["secret", "set", "a", "--from-env", KEY]).code(1);
    by_name.stderr_lacks(KEY).stderr_contains("the variable is not set");
    world.run(["secret", "list"]).succeeds().stdout("");
    world.run(["secret", "set"]).code(2).stderr_contains("<NAME>");
    // Other commands repeat arguments that they do not accept.
    world.run(["ps", "--no-such-flag"]).code(2).stderr_contains("--no-such-flag");
}

#[test]
fn a_provider_is_asked_whether_it_takes_a_secret() {
    let provider = Provider::new();
    let world = World::new();
    world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    let test = ["secret", "test", "anthropic", "--upstream-url", &provider.url];
    world
        .run(test)
        .succeeds()
        .stderr_contains("ok: the Anthropic API accepts secret `anthropic` (HTTP 200)");
    world.run_with_input("sk-wrong-0123456789", ["secret", "set", "anthropic"]).succeeds();
    world
        .run(test)
        .code(1)
        .stderr_contains("the Anthropic API sent HTTP 401")
        .stderr_lacks("sk-wrong");
    world.run(["secret", "test", "other"]).code(1).stderr_contains("secret `other` is not stored");
    world.run_with_input(KEY, ["secret", "set", "other"]).succeeds();
    world.run(["secret", "test", "other"]).code(1).stderr_contains("has no provider");
}

/// The configuration names the provider and the location of a secret, which then need not be stored.
#[test]
fn a_secret_of_the_configuration_is_tested_where_it_lies() {
    let provider = Provider::new();
    let world = World::new().file("home/key", KEY);
    let (url, key) = (&provider.url, world.path("home/key"));
    let config = format!(
        "[secrets.work]\nmode = \"proxy\"\nenv_var = \"ANTHROPIC_API_KEY\"\nupstream_url = \"{url}\"\n\
         from_command = [\"cat\", \"{}\"]\nroutes = [\"POST /v1/messages\"]\n\
         [secrets.gone]\nenv_var = \"OPENAI_API_KEY\"\nfrom_env = \"NOT_THERE\"\n",
        key.display()
    );
    let world = world.file("home/.config/agent-sandbox/config.toml", config);
    let test = ["secret", "test", "work"];
    world
        .run(test)
        .succeeds()
        .stderr_contains("the Anthropic API accepts secret `work` (HTTP 200)")
        .stderr_lacks(KEY);
    let world = world.file("home/key", "sk-wrong-0123456789");
    world
        .run(test)
        .code(1)
        .stderr_contains("the Anthropic API sent HTTP 401")
        .stderr_lacks("sk-wrong");
    world.run(["secret", "test", "gone"]).fails().stderr_contains("`NOT_THERE` is not set");
    world.run(["secret", "test", "other"]).code(1).stderr_contains("secret `other` is not stored");
}
