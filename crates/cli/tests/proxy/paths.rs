//! Paths are forwarded byte for byte, or refused.

use serde_json::json;

use crate::server::Server;
use crate::stage::{KEY, Stage};

#[test]
fn the_raw_path_and_query_reach_the_server() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    for path in [
        "/",
        "/a%3Fb",
        "/a%23b",
        "/a%2Fb",
        "/a%20b?x=%26&y=a+b",
        "/caf%C3%A9",
        "//double",
        "/a;b=c",
        "/a?",
        "/a?b=c?d",
        "/%41",
    ] {
        assert_eq!(stage.get(&token, path).status, 200, "{path}");
        assert_eq!(server.seen().pop().unwrap().target(), path);
    }
}

/// P5: a path with `..` in every spelling, and, under `routes`, paths that servers read in two ways.
#[test]
fn p5_paths_that_climb_or_confuse_do_not_pass() {
    let (stage, server) = (Stage::new(), Server::echo());
    let open = stage.open_session(&server);
    for path in [
        "/a/../b",
        "/..",
        "/a/./b",
        "/%2e%2e/b",
        "/a/.%2E/b",
        "/a%2f..%2fb",
        "/a/..%5cb",
        "/a/%252e%252e/b",
        "/a/..;/b",
        "/a%00b",
        "/a%",
    ] {
        assert_eq!(stage.get(&open, path).code(), "path", "{path}");
    }
    let ruled = stage.session(&server);
    for path in [
        "/v1//models",
        "/v1/models;x",
        "/v1%2Fmodels",
        "/v1/models/a%2F..%2F..%2Fb",
        "/v1/models/%2561",
    ] {
        assert_eq!(stage.get(&ruled, path).code(), "path", "{path}");
    }
    assert!(server.seen().is_empty());
    assert_eq!(stage.get(&ruled, "/v1/%6Dodels").status, 200);
}

#[test]
fn a_session_reaches_only_its_routes() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url(), "routes": ["GET /v1/files/*"] });
    let token = stage.register(terms);
    assert_eq!(stage.get(&token, "/v1/files/a").status, 200);
    assert_eq!(stage.get(&token, "/v1/models").code(), "route_denied");
    assert_eq!(stage.post(&token, "/v1/files/a", "x").code(), "route_denied");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn the_servers_own_path_comes_first() {
    let (stage, server) = (Stage::new(), Server::echo());
    let url = format!("{}/gateway/v2/", server.url());
    let token =
        stage.register(json!({ "provider": "openai", "api_key": KEY, "upstream_url": url }));
    assert_eq!(stage.get(&token, "/v1/models?x=1").status, 200);
    assert_eq!(server.only().target(), "/gateway/v2/v1/models?x=1");
}

#[test]
fn a_token_in_the_path_is_refused_in_every_encoding() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    let encoded = |text: &str| {
        let letters: Vec<_> = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        letters.concat()
    };
    let (bare, last) = (&token["session-".len()..], &token[token.len() - 1..]);
    let one = format!("{}{}", &token[..token.len() - 1], encoded(last));
    for text in [token.clone(), bare.to_owned(), one, encoded(&token), encoded(bare)] {
        for text in [text.clone(), text.replace('%', "%25")] {
            let answer = stage.get(&token, &format!("/v1/x{text}/y"));
            assert_eq!((answer.status, answer.code()), (400, "token_in_path".into()), "{text}");
        }
    }
    assert!(server.seen().is_empty());
    // The control: other percent-encoded text is forwarded unchanged.
    assert_eq!(stage.get(&token, "/v1/x%61/y").status, 200);
}
