//! The key of the secret store in a real keyring, on a test bus.

use std::os::unix::net::UnixStream;

use testkit::{Run, World, need, until};

use crate::provider::{KEY, Provider};

/// Runs a script with an unlocked keyring, as after a login.
#[track_caller]
fn with_keyring(world: &World, script: &str) -> Run {
    for tool in ["dbus-run-session", "dbus-daemon", "gnome-keyring-daemon", "secret-tool"] {
        need(tool);
    }
    let unlock =
        "printf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1";
    let script = format!("set -e; {unlock}\n{script}");
    world.host(["dbus-run-session", "--", "sh", "-c", &script])
}

fn world(provider: &Provider) -> World {
    let world = provider.world("network = false").dir("run");
    let runtime = world.path("run");
    world.host(["chmod", "700", &runtime.display().to_string()]).succeeds();
    let binary = world.binary().display().to_string();
    world.env("XDG_RUNTIME_DIR", runtime).env("SANDBOX", binary)
}

/// Prints the keyring's entry for our key: 64 digits.
const LOOK: &str = "secret-tool lookup application agent-sandbox store \"$HOME/.local/share/agent-sandbox/secrets/key\"";

#[test]
fn the_stores_key_is_in_the_keyring_and_in_no_file() {
    let provider = Provider::new();
    let world = world(&provider);
    let ask = "curl -sS -H \"x-api-key: $ANTHROPIC_API_KEY\" \"$ANTHROPIC_BASE_URL/v1/models\"";
    let script = format!(
        r#"printf %s {KEY} | "$SANDBOX" secret set anthropic 2>&1
        "$SANDBOX" secret list
        "$SANDBOX" secret test anthropic --upstream-url {} 2>&1
        "$SANDBOX" -c ~/policy.toml sh -c '{ask}'; echo
        {LOOK} | tr -d '\n' | wc -c
        "$SANDBOX" secret-tool lookup application agent-sandbox >inside 2>&1 || echo "the keyring is not inside""#,
        provider.url
    );
    let run = with_keyring(&world, &script).succeeds();
    run.stdout_contains("(encrypted; key in the system's keyring)")
        .stdout_contains("accepts secret `anthropic` (HTTP 200)")
        .stdout_contains("taken\n64\n")
        .stdout_contains("the keyring is not inside");
    assert!(
        !world.has("home/.local/share/agent-sandbox/secrets/key"),
        "no key lies beside the store"
    );
    // Without the keyring, the secret cannot be read. Nothing is lost by trying.
    let test = ["secret", "test", "anthropic", "--upstream-url", &provider.url];
    let store = world.read("home/.local/share/agent-sandbox/secrets/secrets.json");
    world.run(test).code(1).stderr_contains("keyring").stderr_lacks(KEY);
    world.run_with_input("another", ["secret", "set", "other"]).code(1).stderr_contains("keyring");
    assert_eq!(world.read("home/.local/share/agent-sandbox/secrets/secrets.json"), store);
    assert_eq!(provider.seen().len(), 2);
    // The proxy that is running does not know the bus. The next one does.
    let socket = world.path("run/agent-sandbox/proxy/admin");
    until("the proxy has ended", || UnixStream::connect(&socket).is_err().then_some(()));
    let again = format!("\"$SANDBOX\" secret test anthropic --upstream-url {} 2>&1", provider.url);
    with_keyring(&world, &again)
        .succeeds()
        .stdout_contains("accepts secret `anthropic` (HTTP 200)");
}

/// Without a keyring, the key is in a file, and the output says so.
#[test]
fn the_stores_key_is_in_a_file_where_no_keyring_is() {
    let provider = Provider::new();
    let world = world(&provider);
    let stored = world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    stored.stderr_contains("key file readable only by you");
    assert!(world.has("home/.local/share/agent-sandbox/secrets/key"));
    // A keyring that is available later changes nothing: the store records the location of its key.
    let test = format!("\"$SANDBOX\" secret test anthropic --upstream-url {} 2>&1", provider.url);
    with_keyring(&world, &test).succeeds().stdout_contains("accepts secret `anthropic` (HTTP 200)");
}
