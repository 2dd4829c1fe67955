//! Secrets of a run, in both modes.

use std::ffi::OsString;

use testkit::{Run, World, need};

use super::provider::{KEY, Provider};

/// Sends a request to the provider as an SDK does.
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

/// In HTTP/2 every request names its authority, which HTTP/1.1 does only in requests to proxies.
#[test]
fn clients_of_http2_reach_the_provider_and_nothing_else() {
    need("curl");
    for network in ["network = true", "network = false", "network = { allowed_hosts = [] }"] {
        let provider = Provider::new();
        let world = provider.world(network);
        world.run_with_input(KEY, ["secret", "set", "anthropic"]).succeeds();
        let ask = |flags: &str, url: &str| {
            let script = format!("{ASK} -w ' %{{http_version}}' {flags}");
            sh(&world, &script.replace("$ANTHROPIC_BASE_URL", url)).succeeds()
        };
        let inside = "$ANTHROPIC_BASE_URL";
        ask("", inside).stdout("taken 1.1");
        ask("--http2-prior-knowledge", inside).stdout("taken 2");
        ask("--http2-prior-knowledge", "$(echo $ANTHROPIC_BASE_URL | sed s/127.0.0.1/localhost/)")
            .stdout("taken 2");
        // The proxy ignores the offer to upgrade to HTTP/2, and answers the request.
        ask("--http2", inside).stdout("taken 1.1");
        assert_eq!(provider.seen().len(), 4, "{network}");
        if network.contains("allowed_hosts") {
            let direct = "--http2-prior-knowledge --noproxy '*' --connect-to ::127.0.0.1:3128";
            ask(direct, "http://a.example").stdout_contains("host-not-allowed");
        }
        assert_eq!(provider.seen().len(), 4, "{network}");
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
    sh(&missing, "true").code(125).stderr_contains("cannot read secret `github`");
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
            "no provider is known for the variable `A_KEY`",
        ),
        (
            "[secrets.a]\nenv_var = 'A'\nfrom_env = 'B'\nfrom_file = 'c'\n",
            "the secret has more than one source",
        ),
        ("[secrets.a]\nenv_var = 'A'\nmodels = ['x']\n", "`models` has no effect"),
        ("[secrets.a]\nenv_var = 'A'\n", "variable `A` is not set"),
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
    world.run(["usage"]).succeeds().stdout("").stderr_contains("no requests to a provider");
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

/// Invalid keys of a proxied secret, with the message.
const WRONG_KEYS: &[(&str, &str)] = &[
    ("provider = 'antropic'", "`secrets.k.provider`: unknown provider `antropic`"),
    ("provider = 'custm'", "unknown provider `custm`"),
    ("provider = ''", "unknown provider ``"),
    ("routes = ['POST v1/messages']", "invalid route `POST v1/messages`"),
    ("routes = ['nonsense rule here']", "invalid route `nonsense rule here`"),
    ("routes = ['GET /a', 'get /b']", "invalid route `get /b`"),
    ("routes = ['GET /[']", "invalid route `GET /[`"),
    ("routes = ['']", "invalid route ``"),
    ("upstream_url = 'ftp://x'", "only http and https are supported"),
    ("upstream_url = 'api.example.com'", "it has no scheme"),
    ("upstream_url = 'https://host:0'", "invalid host or port"),
    ("upstream_url = 'https://'", "invalid host or port"),
    ("upstream_url = 'https://host/a/../b'", "invalid path"),
    ("upstream_url = 'https://host/?x=y'", "it contains a `?` or a `#`"),
    ("upstream_url = 'https://me:hush-hush@host'", "it contains a user or a password"),
    ("header = 'bad header name'", "invalid header name `bad header name`"),
    ("header = ''", "invalid header name"),
    ("header = 'Host'", "the header `Host` belongs to the connection"),
    ("format = 'Token'", "invalid format `Token`"),
    ("format = '{} {}'", "invalid format"),
    ("format = \"{}\\n\"", "invalid format"),
    ("query = 'a&b'", "invalid query parameter name `a&b`"),
    ("query = 'key'\nheader = 'x-key'", "`header` and `query` cannot be combined"),
    ("query = 'key'\nformat = '{}'", "`format` applies only to a header"),
    ("basic_user = 'a:b'", "invalid user `a:b`"),
    ("server_tools = ['web-search']", "invalid tool type `web-search`"),
    ("models = ['']", "the model name is empty"),
    ("from_store = '../x'", "invalid secret name `../x`"),
    ("from_command = ['']", "`from_command` has no program"),
    ("lasting = 5", "`lasting` has no effect without `from_command`"),
    ("max_parallel = -1", "`secrets.k.max_parallel`"),
    ("requests_per_minute = 'many'", "`secrets.k.requests_per_minute`"),
    ("token_budget = 1.5", "`secrets.k.token_budget`"),
    ("from_login = 'gemini'", "unknown value `gemini`"),
];

#[test]
fn a_key_of_a_secret_is_refused_with_its_line_when_its_type_refuses_it() {
    let file = |more: &str| {
        format!(
            "network = false\n[secrets.k]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\n{more}\n"
        )
    };
    for (more, message) in WRONG_KEYS {
        let world = World::new().file("home/policy.toml", file(more)).env("ANTHROPIC_API_KEY", KEY);
        for words in
            [&["config", "show"][..], &["--dry-run", "true"], &["sh", "-c", "echo ran"], &["up"]]
        {
            let run = world.run(policy(&world).into_iter().chain(words.iter().map(OsString::from)));
            let run = run.code(125).stdout_lacks("ran").stderr_contains(message);
            run.stderr_contains("policy.toml:").stderr_lacks("hush-hush");
        }
        // The user's own file is checked in the same way.
        let world = world.file("home/.config/agent-sandbox/config.toml", file(more));
        world.run(["true"]).code(125).stderr_contains(message).stderr_contains("config.toml:");
    }
    let near = World::new().file("home/policy.toml", file("provider = 'antropic'"));
    near.run(policy(&near).into_iter().chain(["true".into()]))
        .code(125)
        .stderr_contains("policy.toml:5:12: ")
        .stderr_contains("did you mean `anthropic`?");
}

#[test]
fn the_keys_of_a_secret_are_accepted_when_the_proxy_accepts_them() {
    for more in [
        "routes = ['POST /v1/messages', '/v1/**', '* /x', '*']\nserver_tools = ['web_search', '*']\nmodels = ['claude-*']",
        "upstream_url = 'HTTPS://Host_1.example:8443/a/%41b/'\nheader = 'X-Key'\nformat = 'Token {}'",
        "upstream_url = 'http://[::1]:80'\nquery = 'api.key'",
        "basic_user = 'git'\nmax_parallel = 1\nrequests_per_minute = 60\ntoken_budget = 0",
        "provider = 'custom'\nbase_url_var = 'B'\nupstream_url = 'https://host'\nformat = 'Bearer {}'",
        "provider = 'openai-subscription'\nfrom_command = ['echo', 'key']\nlasting = 0",
        "provider = 'ollama'",
    ] {
        let config = format!(
            "network = false\n[secrets.k]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\n{more}\n"
        );
        let world = World::new().file("home/policy.toml", config).env("ANTHROPIC_API_KEY", KEY);
        sh(&world, "echo ran").succeeds().stdout("ran\n");
    }
}

#[test]
fn a_registration_that_the_proxy_refuses_ends_the_start_before_the_command_runs() {
    for network in ["network = true", "network = false", "network = { allowed_hosts = [] }"] {
        let provider = Provider::new();
        let world = provider.world(network).env("ANTHROPIC_API_KEY", "sk-real\n0123456789");
        let refused = sh(&world, "echo ran; touch ran").code(125).stdout("");
        refused
            .stderr_contains("cannot attach the sandbox to the proxy")
            .stderr_contains(
                "the key is empty or contains characters that are not allowed in a header",
            )
            .stderr_lacks("0123456789");
        assert!(!world.has("project/ran"), "{network}");
        let world = provider.world(network).env("ANTHROPIC_API_KEY", KEY);
        sh(&world, "touch ran; echo ran").succeeds().stdout("ran\n");
    }
}

/// The log contains the requests, but never their tokens.
#[test]
fn the_audit_log_holds_no_token_when_one_stands_in_the_path() {
    let provider = Provider::new();
    let world = provider.world("").env("ANTHROPIC_API_KEY", KEY);
    let script = "echo $ANTHROPIC_API_KEY; bare=${ANTHROPIC_API_KEY#session-}
        coded=$(printf %s $bare | od -An -v -tx1 | tr -d '\\n' | sed 's/ /%/g')
        for path in v1/models v1/models/$ANTHROPIC_API_KEY $bare/v1 x-$bare $coded; do
            curl -sS -o /dev/null -H \"x-api-key: $ANTHROPIC_API_KEY\" $ANTHROPIC_BASE_URL/$path
            curl -sS -o /dev/null $ANTHROPIC_BASE_URL/$path
        done
        curl -sS -o /dev/null -X $ANTHROPIC_API_KEY $ANTHROPIC_BASE_URL/v1/models";
    let told = sh(&world, script).succeeds().output();
    let token = told.trim().strip_prefix("session-").expect("a token");
    let log = world.read("home/.local/state/agent-sandbox/proxy/audit.jsonl");
    assert_eq!(log.lines().count(), 11, "{log}");
    let coded = token.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    assert!(!log.contains(token) && !log.contains(&coded), "{log}");
    for path in ["/v1/models", "/v1/models/[token]", "/[token]/v1", "/[token]"] {
        assert!(log.contains(&format!("\"path\":\"{path}\"")), "{path}: {log}");
    }
}
