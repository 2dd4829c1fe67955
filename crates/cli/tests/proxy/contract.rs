//! The admin API: register, revoke, list, health, rotation; only for the proxy's owner.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::server::Server;
use crate::stage::{KEY, Stage, new_token};

#[test]
fn sessions_are_registered_listed_and_revoked() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url(), "sandbox_id": "box-1" });
    let token = stage.register(terms.clone());
    assert_eq!(stage.get(&token, "/v1/models").status, 200);
    let listed = stage.admin("GET", "/v1/sessions", None);
    let text = listed.text();
    assert!(!text.contains(KEY) && !text.contains(&token[8..]), "{text}");
    let listed = listed.json();
    assert_eq!(listed[0]["provider"], "anthropic");
    assert_eq!(listed[0]["sandbox_id"], "box-1");
    assert_eq!(listed[0]["upstream_url"], server.url());
    assert_eq!(stage.admin("DELETE", &format!("/v1/sessions/{token}"), None).status, 200);
    assert_eq!(stage.get(&token, "/v1/models").code(), "token_unknown");
    assert_eq!(stage.admin("DELETE", &format!("/v1/sessions/{token}"), None).code(), "no_session");
}

#[test]
fn a_session_is_revoked_by_either_spelling_of_its_token() {
    let (stage, server) = (Stage::new(), Server::echo());
    for revoke_bare in [true, false] {
        let token = stage.session(&server);
        let bare = token.strip_prefix("session-").unwrap();
        assert_eq!(stage.get(bare, "/v1/models").status, 200);
        assert_eq!(stage.get(&token, "/v1/models").status, 200);
        let named = if revoke_bare { bare } else { &token };
        assert_eq!(stage.admin("DELETE", &format!("/v1/sessions/{named}"), None).status, 200);
        assert_eq!(stage.get(bare, "/v1/models").status, 401);
        assert_eq!(stage.get(&token, "/v1/models").status, 401);
    }
}

#[test]
fn all_sessions_of_a_sandbox_are_revoked_at_once() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = |id: &str| json!({ "provider": "openai", "api_key": KEY, "upstream_url": server.url(), "sandbox_id": id });
    let (one, two, other) =
        (stage.register(terms("a")), stage.register(terms("a")), stage.register(terms("b")));
    let answer = stage.admin("DELETE", "/v1/sandboxes/a/sessions", None).json();
    assert_eq!((&answer["count"], &answer["sandbox"]), (&json!(2), &json!("a")));
    assert_eq!(stage.get(&one, "/v1/models").status, 401);
    assert_eq!(stage.get(&two, "/v1/models").status, 401);
    assert_eq!(stage.get(&other, "/v1/models").status, 200);
}

#[test]
fn a_registration_that_makes_no_sense_is_refused_with_a_hint() {
    let stage = Stage::new();
    for (terms, word) in [
        (json!({ "provider": "antropic", "api_key": "k-123" }), "antropic"),
        (json!({ "provider": "anthropic" }), "api_key"),
        (json!({ "provider": "anthropic", "api_key": "" }), "key"),
        (json!({ "provider": "anthropic", "api_key": "a\nb" }), "key"),
        (json!({ "provider": "anthropic", "api_key": "k", "secret": { "store": "x" } }), "api_key"),
        (json!({ "provider": "anthropic", "secret": { "nowhere": "x" } }), "secret"),
        (json!({ "provider": "custom", "api_key": "k" }), "upstream_url"),
        (
            json!({ "provider": "anthropic", "api_key": "k", "upstream_url": "file:///etc/passwd" }),
            "upstream_url",
        ),
        (
            json!({ "provider": "anthropic", "api_key": "k", "upstream_url": "https://u:p@host" }),
            "upstream_url",
        ),
        (
            json!({ "provider": "anthropic", "api_key": "k", "upstrem_url": "https://host" }),
            "upstrem_url",
        ),
        (json!({ "provider": "anthropic", "api_key": "k", "routes": ["get x"] }), "routes"),
        (
            json!({ "provider": "anthropic", "api_key": "k", "headers": { "authorization": "x" } }),
            "headers",
        ),
        (json!({ "provider": "anthropic", "api_key": "k", "sandbox_id": "../x" }), "sandbox"),
        (json!({ "provider": "anthropic", "api_key": "k", "limits": { "rpm": 1 } }), "rpm"),
    ] {
        let answer = stage.try_register(&new_token(), terms.clone());
        assert_eq!(answer.status, 400, "{terms}: {}", answer.text());
        assert!(!answer.code().is_empty());
        assert!(answer.text().contains(word), "{terms}: {}", answer.text());
    }
    let weak =
        stage.try_register("session-1234", json!({ "provider": "anthropic", "api_key": "k" }));
    assert_eq!(weak.status, 400);
    assert!(stage.admin("GET", "/v1/sessions", None).json().as_array().unwrap().is_empty());
}

#[test]
fn a_key_is_rotated_without_touching_the_session() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    stage.get(&token, "/v1/models");
    let path = format!("/v1/sessions/{token}/key");
    assert_eq!(stage.admin("PUT", &path, Some(&json!({ "api_key": "sk-second-key" }))).status, 200);
    assert_eq!(stage.admin("PUT", &path, Some(&json!({ "api_key": " " }))).status, 400);
    stage.get(&token, "/v1/models");
    let keys: Vec<_> =
        server.seen().iter().map(|asked| asked.header("x-api-key").unwrap().to_owned()).collect();
    assert_eq!(keys, [KEY, "sk-second-key"]);
    assert_eq!(stage.admin("GET", "/v1/sessions", None).json()[0]["usage"]["requests"], 2);
}

#[test]
fn health_usage_and_metrics_are_there() {
    let (stage, server) = (Stage::new(), Server::echo());
    stage.get(&stage.session(&server), "/v1/models");
    assert_eq!(stage.admin("GET", "/v1/health", None).json()["status"], "ok");
    assert_eq!(stage.admin("GET", "/v1/usage", None).json()["sessions"][0]["usage"]["requests"], 1);
    assert!((stage.metric("sessions") - 1.0).abs() < 0.1);
    stage.audit(1);
    let text = stage.admin("GET", "/metrics", None).text();
    assert!(text.contains(r#"requests_total{provider="anthropic",status="200"} 1"#), "{text}");
}

/// P7, the worst flaw of the original: its admin interface shared a port with the data, and unknown requests were
/// forwarded with the real key.
#[test]
fn p7_the_admin_interface_cannot_be_reached_where_sandboxes_come_in() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    for (method, path) in [
        ("GET", "/v1/sessions"),
        ("PATCH", "/v1/sessions"),
        ("GET", "/v1/health"),
        ("DELETE", "/v1/health"),
        ("GET", "/metrics"),
        ("GET", "/v1/usage"),
    ] {
        let answer = stage.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 0\r\n\r\n"
        ));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (403, "route_denied"),
            "{method} {path}"
        );
    }
    assert!(server.seen().is_empty());
    let body = json!({ "token": new_token(), "provider": "anthropic", "api_key": "x" }).to_string();
    assert_eq!(stage.post(&token, "/v1/sessions", &body).status, 403);
    assert_eq!(stage.admin("GET", "/v1/sessions", None).json().as_array().unwrap().len(), 1);
}

#[test]
fn the_sockets_are_for_their_owner_alone() {
    let stage = Stage::new();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.socket("admin")), 0o600);
    assert_eq!(mode(&stage.socket("attach")), 0o600);
    assert_eq!(mode(stage.socket("admin").parent().unwrap()), 0o700);
    assert_eq!(mode(&stage.file("audit.jsonl")), 0o600);
    stage.session(&Server::echo());
    assert_eq!(mode(&stage.file("sessions.json")), 0o600);
}

#[test]
fn the_admin_interface_on_tcp_asks_for_its_token() {
    let mut stage =
        Stage::with_env(&[("AGENT_SANDBOX_PROXY_ADMIN_TOKEN", "0123456789abcdef0123456789abcdef")]);
    stage.stop(testkit::Signal::TERM);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let process = stage.world.spawn(["proxy", "--admin-listen", &port.to_string()]);
    process.wait_for_message("admin socket at");
    let ask = |authorization: &str| {
        let mut stream = TcpStream::connect(port).unwrap();
        write!(
            stream,
            "GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{authorization}\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("").starts_with("HTTP/1.1 401"));
    assert!(
        ask("authorization: Bearer 0123456789abcdef0123456789abcdee\r\n")
            .starts_with("HTTP/1.1 401")
    );
    assert!(
        ask("authorization: Bearer 0123456789abcdef0123456789abcdef\r\n")
            .starts_with("HTTP/1.1 200")
    );
    drop(process);
    let without = stage.world.clone().env("AGENT_SANDBOX_PROXY_ADMIN_TOKEN", "");
    without
        .run(["proxy", "--admin-listen", "127.0.0.1:0"])
        .code(1)
        .stderr_contains("AGENT_SANDBOX_PROXY_ADMIN_TOKEN");
}

#[test]
fn nothing_of_a_key_or_a_token_is_written_anywhere() {
    let (mut stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    let bare = &token[8..];
    stage.send(&format!(
        "GET /v1/models?key={token} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    ));
    stage.send(&format!(
        "GET /v1/{token} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    ));
    stage.audit(2);
    stage.stop(testkit::Signal::TERM);
    let mut looked_at = 0;
    for entry in std::fs::read_dir(stage.file("")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(KEY), "{text}");
        // A path that contains a token is refused, and logged with the token redacted.
        assert!(
            !text
                .lines()
                .filter(|line| !line.contains("token_in_path"))
                .any(|line| line.contains(bare)),
            "{text}"
        );
        looked_at += 1;
    }
    assert!(looked_at >= 2);
}
