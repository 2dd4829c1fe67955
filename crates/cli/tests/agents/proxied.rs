//! Agents that hold no key, in sandboxes that reach nothing but the proxy. Their provider has a
//! certificate that the user's own authority vouches for, and only the proxy has to believe it.

use testkit::{Authority, Run, World, agents, need};

use crate::provider::{LAST_WORDS, Provider};

/// Everything that an agent could find a key in.
const SEARCH: &str = "echo hello > made-by-agent.txt; env; tr '\\0' '\\n' < /proc/self/environ; \
    cat ~/.config/agent-sandbox/* ~/.local/share/agent-sandbox/*/* /proc/[0-9]*/environ; curl -sS -m 5 https://example.com";

const KEY: &str = "sk-ant-real-key-0123456789";

struct Scene {
    world: World,
    provider: Provider,
}

impl Scene {
    fn new(variable: &str) -> Self {
        need("node");
        let authority = Authority::default();
        let provider = Provider::secure(&authority, SEARCH);
        let policy = format!(
            "network = false\n[secrets.model]\nmode = 'proxy'\nenv_var = '{variable}'\nupstream_url = '{}'\n",
            provider.url()
        );
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", agents().display());
        let world = World::new()
            .file("home/policy.toml", policy)
            .file("home/authority.pem", authority.pem())
            .git_init("project")
            .env("PATH", path)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env(variable, KEY);
        let known = world.path("home/authority.pem");
        Self { world: world.env("SSL_CERT_FILE", known), provider }
    }

    fn run(&self, words: &[&str]) -> Run {
        let policy = self.world.path("home/policy.toml").display().to_string();
        self.world.run(["-c", policy.as_str()].iter().chain(words))
    }

    /// The work is done, the provider has seen the real key, and the agent never has.
    #[track_caller]
    fn holds(&self, run: Run, header: &str) {
        run.succeeds().stdout_contains(LAST_WORDS);
        assert_eq!(self.world.read("project/made-by-agent.txt"), "hello\n");
        let heads = self.provider.heads();
        let asked: Vec<_> = heads.iter().filter(|head| head.starts_with("POST")).collect();
        assert!(
            asked.len() > 1 && asked.iter().all(|head| head.contains(&format!("{header}{KEY}"))),
            "{heads:?}"
        );
        let result = self.provider.result();
        assert!(result.contains("=session-"), "the search has found the token: {result}");
        assert!(!self.provider.heard().contains(KEY), "the agent has found the key");
    }
}

#[test]
fn claude_works_without_a_key_and_without_a_network() {
    let scene = Scene::new("ANTHROPIC_API_KEY");
    let run = scene.run(&["claude", "-p", "do the work", "--dangerously-skip-permissions"]);
    scene.holds(run, "x-api-key: ");
}

#[test]
fn codex_works_without_a_key_and_without_a_network() {
    let scene = Scene::new("OPENAI_API_KEY");
    let run = scene.run(&[
        "codex",
        "exec",
        "--dangerously-bypass-approvals-and-sandbox",
        "--model",
        "stand-in",
        "do the work",
    ]);
    scene.holds(run, "authorization: Bearer ");
}
