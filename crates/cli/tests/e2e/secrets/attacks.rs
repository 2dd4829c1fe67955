//! Attacks by an agent that wants the key.

use super::provider::{KEY, Provider};

/// Searches for the key in every file that the command can read, and in its memory.
#[test]
fn p_the_key_is_found_nowhere_inside() {
    let provider = Provider::new();
    let world = provider.world("network = false");
    world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    let file = world.path("home/policy.toml");
    let search = format!(
        "curl -sS -H \"x-api-key: $ANTHROPIC_API_KEY\" $ANTHROPIC_BASE_URL/v1/models; echo; \
         grep -rls '{}' \"$HOME\" /run /tmp /dev/shm 2>/dev/null; \
         for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ 2>/dev/null | grep -c '{0}'; done",
        // The script must not find itself.
        KEY.replace("real", "[r]eal")
    );
    let run = world.run(["-c", file.to_str().unwrap(), "bash", "-c", &search]);
    let found = run.output();
    assert!(found.starts_with("taken\n"), "{found}");
    assert!(found.lines().skip(1).all(|line| line == "0"), "{found}");
    let store = world.path("home/.local/share/agent-sandbox/secrets/secrets.json");
    let store = store.to_str().unwrap();
    world.host(["test", "-s", store]).succeeds();
    world.run(["-c", file.to_str().unwrap(), "cat", store]).fails().stdout("");
}

/// A token is valid only in its own sandbox, and only until that ends.
#[test]
fn p6_p8_a_token_is_bound_to_its_sandbox() {
    let provider = Provider::new();
    let world = provider.world("");
    world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    let file = world.path("home/policy.toml");
    let policy = ["-c", file.to_str().unwrap()];
    let one = "echo $ANTHROPIC_API_KEY $ANTHROPIC_BASE_URL > said; echo ready; read go";
    let mut running = world.spawn(policy.into_iter().chain(["sh", "-c", one]));
    running.wait_for("ready");
    let said = world.read("project/said");
    let (token, url) = said.trim().split_once(' ').unwrap();
    let ask = |url: &str| {
        format!("curl -sS -w ' %{{http_code}}' -H 'x-api-key: {token}' {url}/v1/models")
    };
    // The sandbox's own listener accepts it, that of another sandbox does not.
    world.host(["sh", "-c", &ask(url)]).succeeds().stdout("taken 200");
    let other = format!("{}; echo", ask("$ANTHROPIC_BASE_URL"));
    let refused = world.run(policy.into_iter().chain(["sh", "-c", &other])).succeeds();
    refused.stdout_lacks("taken").stdout_contains(" 401");
    running.send("go\n");
    running.wait().succeeds();
    world.host(["sh", "-c", &ask(url)]).fails();
    assert_eq!(provider.seen().len(), 1);
}

/// P12: a provider's web search is a network. Only a sandbox with a network may use it.
#[test]
fn p12_a_providers_own_tools_are_refused_when_the_network_is_closed() {
    let script = "curl -sS -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'content-type: application/json' \
        -d '{\"tools\":[{\"type\":\"web_search_20250305\"}]}' $ANTHROPIC_BASE_URL/v1/messages";
    for (network, more, taken) in [
        ("network = true", "", true),
        ("network = false", "", false),
        ("network = { allowed_hosts = ['a.example'] }", "", false),
        ("network = false", "server_tools = ['web_search']", true),
        ("network = true", "server_tools = []", false),
    ] {
        let provider = Provider::new();
        let world = provider.world(network).env("ANTHROPIC_API_KEY", KEY);
        let policy = format!("{}{more}\n", world.read("home/policy.toml"));
        world.write("home/policy.toml", policy);
        let file = world.path("home/policy.toml");
        let run = world.run(["-c", file.to_str().unwrap(), "sh", "-c", script]).succeeds();
        let said = run.output();
        let expected = if taken { "taken" } else { "server_tool_denied" };
        assert!(said.contains(expected), "{network} {more}: {said}");
        assert_eq!(provider.seen().len(), usize::from(taken), "{network} {more}");
    }
}

/// The admin socket and the store are outside.
#[test]
fn p7_the_proxys_sockets_are_not_inside() {
    let provider = Provider::new();
    let world = provider.world("");
    world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
    let file = world.path("home/policy.toml");
    let socket = world.path("home/.local/state/agent-sandbox/proxy/admin");
    let ask = format!("curl -sS --unix-socket {} http://proxy/v1/sessions", socket.display());
    let script = format!("{ask} > said 2>&1; echo now; read go");
    let mut running = world.spawn(["-c", file.to_str().unwrap(), "sh", "-c", &script]);
    running.wait_for("now");
    assert!(!world.read("project/said").contains("anthropic"));
    world.host(["sh", "-c", &ask]).succeeds().stdout_contains("anthropic").stdout_lacks(KEY);
    running.send("go\n");
    running.wait().succeeds();
}
