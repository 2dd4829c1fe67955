//! Agents without a key, in sandboxes that reach only the proxy. Their provider has a certificate of
//! the user's own authority, and only the proxy has to trust it.

use testkit::{Authority, Run, World, agents, need};

use crate::provider::{LAST_WORDS, Provider};

/// Prints everything in which an agent could find a key.
const SEARCH: &str = "echo hello > made-by-agent.txt; env; tr '\\0' '\\n' < /proc/self/environ; \
    cat ~/.config/agent-sandbox/* ~/.local/share/agent-sandbox/*/* /proc/[0-9]*/environ; curl -sS -m 5 https://example.com";

const KEY: &str = "sk-ant-real-key-0123456789";

struct Scene {
    world: World,
    provider: Provider,
    key: String,
}

/// Returns the policy for a key in a variable.
fn variable(name: &str) -> String {
    format!("env_var = '{name}'")
}

impl Scene {
    /// Creates a world with a secret in mode `proxy`, from its location and content.
    fn new(secret: &str, key: &str) -> Self {
        need("node");
        let authority = Authority::default();
        let provider = Provider::secure(&authority, SEARCH);
        let policy = format!(
            "network = false\n[secrets.model]\nmode = 'proxy'\nupstream_url = '{}'\n{secret}\n",
            provider.url()
        );
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", agents().display());
        let world = World::new()
            .file("home/policy.toml", policy)
            .file("home/authority.pem", authority.pem())
            .git_init("project")
            .env("PATH", path)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        let known = world.path("home/authority.pem");
        Self { world: world.env("SSL_CERT_FILE", known), provider, key: key.to_owned() }
    }

    /// Creates a world whose key is in the caller's environment.
    fn with_key(name: &str) -> Self {
        let mut scene = Self::new(&variable(name), KEY);
        scene.world = scene.world.env(name, KEY);
        scene
    }

    fn run(&self, words: &[&str]) -> Run {
        let policy = self.world.path("home/policy.toml").display().to_string();
        self.world.run(["-c", policy.as_str()].iter().chain(words))
    }

    /// Asserts that the work is done, and that the provider received the real key and the agent never had it.
    #[track_caller]
    fn holds(&self, run: Run, header: &str) {
        run.succeeds().stdout_contains(LAST_WORDS);
        assert_eq!(self.world.read("project/made-by-agent.txt"), "hello\n");
        let heads = self.provider.heads();
        let asked: Vec<_> = heads.iter().filter(|head| head.starts_with("POST")).collect();
        assert!(
            asked.len() > 1
                && asked.iter().all(|head| head.contains(&format!("{header}{}", self.key))),
            "{heads:?}"
        );
        let result = self.provider.result();
        assert!(result.contains("=session-"), "the search has found the token: {result}");
        assert!(!self.provider.heard().contains(&self.key), "the agent has found the key");
    }
}

const CLAUDE: &[&str] = &["claude", "-p", "do the work", "--dangerously-skip-permissions"];
const CODEX: &[&str] = &[
    "codex",
    "exec",
    "--dangerously-bypass-approvals-and-sandbox",
    "--model",
    "stand-in",
    "do the work",
];
const GEMINI: &[&str] =
    &["gemini", "--yolo", "--skip-trust", "--model", "gemini-2.5-pro", "--prompt", "do the work"];

#[test]
fn claude_works_without_a_key_and_without_a_network() {
    let scene = Scene::with_key("ANTHROPIC_API_KEY");
    scene.holds(scene.run(CLAUDE), "x-api-key: ");
}

#[test]
fn codex_works_without_a_key_and_without_a_network() {
    let scene = Scene::with_key("OPENAI_API_KEY");
    scene.holds(scene.run(CODEX), "authorization: Bearer ");
}

/// If the agent is not the command itself, its settings name the proxy.
#[test]
fn codex_works_without_a_key_below_a_shell_and_in_a_session() {
    let script = format!("exec {} 'do the work'", CODEX[..CODEX.len() - 1].join(" "));
    let scene = Scene::with_key("OPENAI_API_KEY");
    let scene = Scene { world: scene.world.clone().dir("home/.codex"), ..scene };
    scene.holds(scene.run(&["sh", "-c", &script]), "authorization: Bearer ");
    let scene = Scene::with_key("OPENAI_API_KEY");
    let scene = Scene { world: scene.world.clone().dir("home/.codex"), ..scene };
    scene.run(&["up"]).succeeds();
    let run = scene.world.run(["exec", "-s", "project"].iter().chain(CODEX));
    scene.world.run(["down", "--all"]).succeeds();
    scene.holds(run, "authorization: Bearer ");
}

/// Its SDKs expect the version in the base URL, and the one for Gemini has no variable for it.
#[test]
fn opencode_works_without_a_key_and_without_a_network() {
    for (variable, model, header) in [
        ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5", "x-api-key: "),
        ("GEMINI_API_KEY", "google/gemini-2.5-pro", "x-goog-api-key: "),
    ] {
        let scene = Scene::with_key(variable);
        let world = scene.world.clone().file("project/opencode.json", r#"{"permission":"allow"}"#);
        let scene = Scene { world, ..scene };
        scene.holds(scene.run(&["opencode", "run", "--model", model, "do the work"]), header);
    }
}

/// With settings of the user without keys, with settings that choose another login, and without settings.
#[test]
fn gemini_works_without_a_key_and_without_a_network() {
    for (mounts, settings) in [
        ("", None),
        ("", Some(r#"{"ui":{"hideTips":true}}"#)),
        ("bwrap", Some(r#"{"security":{"auth":{"selectedType":"oauth-personal"}}}"#)),
    ] {
        let mut scene = Scene::with_key("GEMINI_API_KEY");
        scene.world = scene.world.env("AGENT_SANDBOX_MOUNTS", mounts);
        if let Some(settings) = settings {
            scene.world = scene.world.file("home/.gemini/settings.json", settings);
        }
        scene.holds(scene.run(GEMINI), "x-goog-api-key: ");
        let after = scene.world.has("home/.gemini/settings.json");
        let after = after.then(|| scene.world.read("home/.gemini/settings.json"));
        assert_eq!(after.as_deref(), settings, "the user's own settings");
    }
}

/// A login that expires in the far future: `{"alg":"none"}.{"exp":4102444800}`.
const LOGIN: &str = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.c2lnbmF0dXJl";

#[test]
fn codex_uses_the_login_that_it_does_not_see() {
    let login = format!(
        r#"{{"OPENAI_API_KEY":null,"tokens":{{"id_token":"{LOGIN}","access_token":"{LOGIN}","refresh_token":"r","account_id":"acc-1"}}}}"#
    );
    let secret = "env_var = 'OPENAI_API_KEY'\nfrom_login = 'codex'";
    for secret in [secret.to_owned(), format!("{secret}\nprovider = 'openai-subscription'")] {
        let mut scene = Scene::new(&secret, LOGIN);
        scene.world = scene.world.file("home/.codex/auth.json", &login);
        scene.holds(scene.run(CODEX), "authorization: Bearer ");
        let heads = scene.provider.heads();
        let mut asked = heads.iter().filter(|head| head.starts_with("POST"));
        assert!(asked.all(|head| head.contains("chatgpt-account-id: acc-1")), "{heads:?}");
    }
}

#[test]
fn claude_uses_the_login_that_it_does_not_see() {
    let login = "sk-ant-oat01-login-0123456789";
    let file = format!(
        r#"{{"claudeAiOauth":{{"accessToken":"{login}","refreshToken":"r","expiresAt":4102444800000,"scopes":["user:inference"]}}}}"#
    );
    let secret = "env_var = 'CLAUDE_CODE_OAUTH_TOKEN'\nfrom_login = 'claude'";
    let mut scene = Scene::new(secret, login);
    scene.world = scene.world.file("home/.claude/.credentials.json", file);
    scene.holds(scene.run(CLAUDE), "authorization: Bearer ");
}
