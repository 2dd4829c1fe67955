//! Logins of agents: the proxy uses and renews them, and the sandbox never contains them.

use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};
use testkit::{Run, World};

use super::internet::Internet;
use crate::probe::sh;

const CLAUDE: &str = "home/.claude/.credentials.json";
const CODEX: &str = "home/.codex/auth.json";

/// Sends the given number of requests in parallel, then searches for the credentials.
const USE: &str = r#"
ask() { curl -sS -H "authorization: Bearer $TOKEN" "$URL"; echo; }
for n in 1 2 3 4; do ask & done; wait
cat ~/.claude/.credentials.json ~/.codex/auth.json 2>/dev/null
env; cat /proc/[0-9]*/environ 2>/dev/null
true
"#;

fn world() -> World {
    let policy = "network = false
[secrets.claude]
mode = 'proxy'
env_var = 'CLAUDE_CODE_OAUTH_TOKEN'
provider = 'anthropic-subscription'
from_login = 'claude'
[secrets.codex]
mode = 'proxy'
env_var = 'CODEX_TOKEN'
provider = 'openai-subscription'
base_url_var = 'CODEX_URL'
from_login = 'codex'
";
    World::new()
        .file("home/policy.toml", policy)
        .file("www/api.anthropic.com/v1/models", "models of anthropic")
        .file("www/chatgpt.com/backend-api/codex/models", "models of openai")
}

/// Returns a JSON web token that expires at a time.
fn jwt(end: u64, name: &str) -> String {
    format!(
        "{}.{}.{name}",
        base64url(r#"{"alg":"none"}"#),
        base64url(&format!(r#"{{"exp":{end}}}"#))
    )
}

fn base64url(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = text.as_bytes().chunks(3).flat_map(|three| {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        (0..=three.len()).map(move |place| char::from(DIGITS[bits >> (18 - 6 * place) & 63]))
    });
    digits.collect()
}

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("it is later").as_secs()
}

/// Writes both logins as their agents do. They expire in the given number of seconds, or expired that long ago.
fn logins(world: &World, seconds: i64) {
    let end = now().saturating_add_signed(seconds);
    let claude = json!({ "claudeAiOauth": { "accessToken": "sk-ant-oat01-old-access", "refreshToken": "sk-ant-ort01-old-refresh",
        "expiresAt": end * 1000, "scopes": ["user:inference"], "subscriptionType": "max" }, "mcpOAuth": { "kept": true } });
    let codex = json!({ "OPENAI_API_KEY": null, "last_refresh": "2020-01-01T00:00:00Z",
        "tokens": { "access_token": jwt(end, "old-access"), "refresh_token": "old-codex-refresh", "account_id": "acc" } });
    for (path, content) in [(CLAUDE, claude), (CODEX, codex)] {
        let padded = format!("{content:#}\n");
        world.write(path, padded);
    }
}

/// Responses of the token endpoints.
fn answers(world: &World, claude: &str, codex: &str) {
    world.write("www/platform.claude.com/v1/oauth/token", claude);
    world.write("www/auth.openai.com/oauth/token", codex);
}

impl Internet {
    #[track_caller]
    fn uses(&self, token: &str, url: &str) -> Run {
        let script = format!("TOKEN=${token}; URL={url}; {USE}");
        let policy = self.world.path("home/policy.toml").display().to_string();
        let words = ["-c", policy.as_str()].into_iter().chain(sh(&script));
        self.world.run(words)
    }

    fn asked(&self, server: &str) -> usize {
        self.log("bodies.log").lines().filter(|line| line.starts_with(server)).count()
    }

    fn content(&self, path: &str) -> Value {
        serde_json::from_str(&self.world.read(path)).expect("JSON")
    }
}

const CLAUDE_URL: &str = "$ANTHROPIC_BASE_URL/v1/models";
const CODEX_URL: &str = "$CODEX_URL/models";

#[test]
fn p13_a_login_that_has_ended_is_renewed_on_the_host_alone_and_once() {
    let internet = Internet::with(world());
    let world = &internet.world;
    let fresh = jwt(now() + 3600, "new-access");
    logins(world, -100);
    let inode = std::fs::metadata(world.path(CLAUDE)).unwrap().ino();
    answers(
        world,
        r#"{"access_token":"sk-ant-oat01-new-access","refresh_token":"sk-ant-ort01-new-refresh","expires_in":3600}"#,
        &json!({ "access_token": fresh, "refresh_token": "new-codex-refresh" }).to_string(),
    );
    // Two sandboxes, with four requests each.
    let (one, two) = std::thread::scope(|scope| {
        let one = scope
            .spawn(|| internet.uses("CLAUDE_CODE_OAUTH_TOKEN", CLAUDE_URL).succeeds().output());
        let two = internet.uses("CLAUDE_CODE_OAUTH_TOKEN", CLAUDE_URL).succeeds().output();
        (one.join().unwrap(), two)
    });
    let codex = internet.uses("CODEX_TOKEN", CODEX_URL).succeeds().output();
    for (said, models) in
        [(one, "models of anthropic"), (two, "models of anthropic"), (codex, "models of openai")]
    {
        assert_eq!(said.matches(models).count(), 4, "{said}");
        assert!(said.contains("CLAUDE_CODE_OAUTH_TOKEN=session-"), "{said}");
        for secret in ["access", "refresh"] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    assert_eq!((internet.asked("platform.claude.com"), internet.asked("auth.openai.com")), (1, 1));
    let bodies = internet.log("bodies.log");
    assert!(
        bodies.contains("sk-ant-ort01-old-refresh") && bodies.contains("old-codex-refresh"),
        "{bodies}"
    );
    let keys = internet.log("keys.log");
    assert_eq!(
        keys.matches("api.anthropic.com Bearer sk-ant-oat01-new-access\n").count(),
        8,
        "{keys}"
    );
    assert_eq!(keys.matches(&format!("chatgpt.com Bearer {fresh}\n")).count(), 4, "{keys}");
    // The agents on the host find their login as if they had renewed it.
    let claude = internet.content(CLAUDE);
    assert_eq!(claude["claudeAiOauth"]["accessToken"], "sk-ant-oat01-new-access");
    assert_eq!(claude["claudeAiOauth"]["refreshToken"], "sk-ant-ort01-new-refresh");
    assert_eq!(
        (&claude["claudeAiOauth"]["subscriptionType"], &claude["mcpOAuth"]["kept"]),
        (&json!("max"), &json!(true))
    );
    assert_eq!(std::fs::metadata(world.path(CLAUDE)).unwrap().ino(), inode);
    let codex = internet.content(CODEX);
    assert_eq!(
        (&codex["tokens"]["access_token"], &codex["tokens"]["account_id"]),
        (&json!(fresh), &json!("acc"))
    );
    assert_ne!(codex["last_refresh"], "2020-01-01T00:00:00Z");
}

#[test]
fn a_login_that_is_good_is_used_as_it_is_and_hidden() {
    let internet = Internet::with(world());
    logins(&internet.world, 3600);
    let before = internet.world.read(CLAUDE);
    let said = internet.uses("CLAUDE_CODE_OAUTH_TOKEN", CLAUDE_URL).succeeds().output();
    assert!(said.contains("models of anthropic") && !said.contains("old-refresh"), "{said}");
    assert!(internet.log("keys.log").contains("Bearer sk-ant-oat01-old-access"));
    assert_eq!((internet.asked("platform.claude.com"), internet.world.read(CLAUDE)), (0, before));
    // Without the secret, the agent has its own login like its other files.
    internet
        .world
        .run(sh("cat ~/.claude/.credentials.json"))
        .succeeds()
        .stdout_contains("old-refresh");
}

/// P16: an incomplete response is not used, stored or passed on.
#[test]
fn p16_an_answer_that_is_none_changes_nothing_and_is_not_passed_on() {
    let internet = Internet::with(world());
    for (number, answer) in [
        r#"{"access_token":"sk-ant-oat01-leaked","refresh_to"#,
        r#"{"refresh_token":"sk-ant-oat01-leaked","expires_in":3600}"#,
        r#"{"access_token":"sk-ant-oat01-leaked\nx-api-key: y","expires_in":3600}"#,
        r#"{"access_token":["sk-ant-oat01-leaked"],"expires_in":3600}"#,
        "sk-ant-oat01-leaked",
    ]
    .into_iter()
    .enumerate()
    {
        logins(&internet.world, -100);
        answers(&internet.world, answer, answer);
        let before = internet.world.read(CLAUDE);
        let said = internet.uses("CLAUDE_CODE_OAUTH_TOKEN", CLAUDE_URL).succeeds().output();
        assert_eq!(said.matches("secret_unavailable").count(), 4, "{said}");
        assert!(
            said.contains("run `claude` once on the host") && !said.contains("leaked"),
            "{said}"
        );
        assert_eq!(internet.world.read(CLAUDE), before);
        // A refresh token that fails is not retried with every request.
        assert!(internet.asked("platform.claude.com") <= number + 1, "{answer}");
    }
    assert!(internet.log("keys.log").lines().all(|line| !line.contains("api.anthropic.com")));
}
