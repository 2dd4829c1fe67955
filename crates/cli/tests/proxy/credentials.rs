//! Exactly one credential reaches the server: the session's.

use serde_json::json;

use crate::server::{Server, reply};
use crate::stage::{KEY, Stage};

#[test]
fn each_provider_gets_its_key_where_it_looks_for_it() {
    let (stage, server) = (Stage::new(), Server::echo());
    let url = server.url();
    for (terms, path, header, value) in [
        (json!({ "provider": "anthropic" }), "/v1/models", "x-api-key", KEY),
        (
            json!({ "provider": "openai" }),
            "/v1/models",
            "authorization",
            "Bearer sk-real-0123456789-key",
        ),
        (json!({ "provider": "gemini" }), "/v1beta/models", "x-goog-api-key", KEY),
        (
            json!({ "provider": "anthropic-subscription" }),
            "/v1/models",
            "authorization",
            "Bearer sk-real-0123456789-key",
        ),
        (json!({ "provider": "custom" }), "/x", "authorization", "Bearer sk-real-0123456789-key"),
        (
            json!({ "provider": "custom", "credential": { "header": { "name": "X-Own", "format": "Token {}" } } }),
            "/x",
            "x-own",
            "Token sk-real-0123456789-key",
        ),
        (
            json!({ "provider": "custom", "credential": { "basic": { "user": "git" } } }),
            "/x",
            "authorization",
            "Basic Z2l0OnNrLXJlYWwtMDEyMzQ1Njc4OS1rZXk=",
        ),
    ] {
        let mut terms = terms;
        terms["api_key"] = json!(KEY);
        terms["upstream_url"] = json!(url);
        let token = stage.register(terms.clone());
        let answer = stage.get(&token, path);
        assert_eq!(answer.status, 200, "{terms}: {}", answer.text());
        let asked = server.seen().pop().unwrap();
        assert_eq!(asked.header(header), Some(value), "{terms}");
        assert_eq!(
            asked.head.matches("sk-real").count(),
            usize::from(!value.starts_with("Basic")),
            "{}",
            asked.head
        );
        assert!(!asked.head.contains(&token[8..]), "{}", asked.head);
    }
}

#[test]
fn ollama_needs_no_key_and_gets_none() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.register(json!({ "provider": "ollama", "upstream_url": server.url() }));
    let answer = stage.send(&format!(
        "GET /api/tags HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    ));
    assert_eq!(answer.status, 200);
    assert_eq!(server.only().count("authorization"), 0);
    assert_eq!(
        stage
            .send(&format!(
                "DELETE /api/delete HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
            ))
            .status,
        403
    );
}

#[test]
fn a_key_in_the_query_replaces_the_token_there() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "custom", "api_key": "k/e+y-1234", "upstream_url": server.url(), "credential": { "query": { "name": "key" } } });
    let token = stage.register(terms);
    let answer = stage.send(&format!("GET /x?a=1&key={token}&b=%20 HTTP/1.1\r\nhost: x\r\n\r\n"));
    assert_eq!(answer.status, 200);
    assert_eq!(server.only().target(), "/x?a=1&b=%20&key=k%2Fe%2By-1234");
    assert!(!answer.text().contains("k%2Fe%2By-1234"), "{}", answer.text());
}

/// P3: with a second credential beside ours, the sandbox could choose the account.
#[test]
fn p3_every_other_credential_is_dropped() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    let answer = stage.send(&format!(
        "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nAuthorization: Bearer {token}\r\nauthorization: Bearer attacker-1\r\n\
         X-API-KEY: attacker-2\r\nx-api-key: attacker-3\r\napi-key: attacker-4\r\nx-goog-api-key: attacker-5\r\n\
         Proxy-Authorization: Basic attacker-6\r\nCookie: session=attacker-7\r\nX-Amz-Security-Token: attacker-8\r\n\
         X-Auth-Token: attacker-9\r\nX-Note: {token}\r\nanthropic-version: 2023-06-01\r\n\r\n"
    ));
    assert_eq!(answer.status, 200);
    let asked = server.only();
    assert!(!asked.head.contains("attacker") && !asked.head.contains("evil"), "{}", asked.head);
    assert!(!asked.head.contains(&token[8..]), "{}", asked.head);
    assert_eq!((asked.count("x-api-key"), asked.count("authorization")), (1, 0));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked.header("host"), Some(server.address.to_string().as_str()));
}

/// P3, in the query: servers decode names, ignore case, and use the first or the last of several.
#[test]
fn p3_a_second_credential_in_the_query_is_dropped_in_every_spelling() {
    let (stage, server) = (Stage::new(), Server::echo());
    let own = |placement: serde_json::Value| {
        stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": server.url(), "credential": placement }))
    };
    let header = own(json!({ "header": { "name": "x-goog-api-key", "format": "{}" } }));
    let query = own(json!({ "query": { "name": "appid" } }));
    let target = |token: &str, pairs: &str| {
        let answer = stage.get(token, &format!("/v1beta/models?a=1&{pairs}&b=%20"));
        assert_eq!(answer.status, 200, "{pairs}: {}", answer.text());
        server.seen().pop().unwrap().target().to_owned()
    };
    let plain = "/v1beta/models?a=1&b=%20";
    for pairs in [
        "key=mine",
        "KEY=mine",
        "%6Bey=mine",
        "%6b%65%79=mine",
        "%256Bey=mine",
        "key[]=mine",
        "key%00=mine",
        "+key=mine",
        "x=1;key=mine",
        "key=mine&Key=mine&%4bEY=mine",
        "access_token=mine",
        "Access%5FToken=mine",
        "accessToken=mine",
        "oauth_token=mine",
        "api_key=mine",
        "apiKey=mine",
        "API-KEY=mine",
        "x-goog-api-key=mine",
        "token=mine",
        "authorization=Bearer%20mine",
        "%24httpHeaders=x-api-key%3Amine",
    ] {
        assert_eq!(target(&header, pairs), plain, "{pairs}");
        assert_eq!(target(&query, pairs), format!("{plain}&appid={KEY}"), "{pairs}");
    }
    for pairs in ["appid=mine", "APPID=mine", "%61ppid=mine", "app_id=mine"] {
        assert_eq!(target(&query, pairs), format!("{plain}&appid={KEY}"), "{pairs}");
        assert_eq!(target(&header, pairs), format!("/v1beta/models?a=1&{pairs}&b=%20"));
    }
    for pairs in ["pageToken=x", "alt=sse", "keyword=x", "q=key%3Dx", "$filter=a%20eq%201"] {
        assert_eq!(target(&header, pairs), format!("/v1beta/models?a=1&{pairs}&b=%20"));
    }
    // The token is accepted in any spelling, and removed in each.
    let bare = header.strip_prefix("session-").unwrap();
    for pairs in [
        format!("%6Bey={header}"),
        format!("KEY=%73ession-{bare}"),
        format!("key={header}&note=%25{:x}{}", bare.as_bytes()[0], &bare[1..]),
    ] {
        let request = format!("GET /v1beta/models?{pairs}&b=2 HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(stage.send(&request).status, 200, "{pairs}");
        assert_eq!(server.seen().pop().unwrap().target(), "/v1beta/models?b=2", "{pairs}");
    }
}

/// P3, in headers: a server that reads `x_auth_token` as `x-auth-token` receives neither.
#[test]
fn p3_a_second_credential_in_a_header_is_dropped_in_every_spelling() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    for name in [
        "X_API_KEY",
        "x.api.key",
        "Api_Key",
        "x_auth_token",
        "access_token",
        "Private_Token",
        "auth",
        "x-auth",
        "key",
        "x-access-key",
        "x-security-token",
        "ocp_apim_subscription_key",
        "x-jwt",
    ] {
        let answer = stage.send(&format!(
            "GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n{name}: mine\r\nx-kept: 1\r\n\r\n"
        ));
        assert_eq!(answer.status, 200, "{name}");
        let asked = server.seen().pop().unwrap();
        assert!(!asked.head.contains("mine"), "{}", asked.head);
        assert_eq!(asked.header("x-kept"), Some("1"), "{name}");
    }
}

#[test]
fn headers_of_the_connection_and_for_proxies_do_not_pass() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.session(&server);
    stage.send(&format!(
        "GET /v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 x\r\nX-Http-Method-Override: DELETE\r\n\
         X-Original-Url: /v1/admin\r\nAccept-Encoding: gzip\r\nX-Kept: 1\r\n\r\n"
    ));
    let asked = server.only();
    let names: Vec<_> = asked
        .head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let mut expected = ["x-kept", "accept-encoding", "x-api-key", "host"];
    expected.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(asked.header("accept-encoding"), Some("identity"));
}

#[test]
fn a_subscription_is_swapped_and_its_feature_merged() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "anthropic", "api_key": "sk-ant-oat01-login-token", "upstream_url": server.url() });
    let token = stage.register(terms);
    stage.send(&format!(
        "POST /v1/messages?beta=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nanthropic-beta: one, two\r\ncontent-length: 2\r\n\r\n{{}}"
    ));
    let asked = server.only();
    assert_eq!(asked.header("authorization"), Some("Bearer sk-ant-oat01-login-token"));
    assert_eq!(asked.header("anthropic-beta"), Some("one,two,oauth-2025-04-20"));
    assert_eq!((asked.count("x-api-key"), asked.count("anthropic-beta")), (0, 1));
    assert_eq!(asked.target(), "/v1/messages?beta=true");
}

#[test]
fn headers_of_a_session_are_set_on_every_request() {
    let (stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "openai-subscription", "api_key": KEY, "upstream_url": server.url(), "headers": { "ChatGPT-Account-ID": "acc-1" } });
    let token = stage.register(terms);
    stage.send(&format!("GET /models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nchatgpt-account-id: other\r\n\r\n"));
    let asked = server.only();
    assert_eq!(
        (asked.header("chatgpt-account-id"), asked.count("chatgpt-account-id")),
        (Some("acc-1"), 1)
    );
}

/// P1, P15: the request names another server, in every possible way.
#[test]
fn p1_the_server_is_the_sessions_whatever_the_request_says() {
    let (stage, server, other) = (Stage::new(), Server::echo(), Server::echo());
    let token = stage.open_session(&server);
    let elsewhere = other.address;
    let absolute = stage.send(&format!(
        "GET http://{elsewhere}/x HTTP/1.1\r\nhost: {elsewhere}\r\nx-api-key: {token}\r\n\r\n"
    ));
    assert_eq!(absolute.code(), "not_a_proxy");
    let connect = stage.send(&format!(
        "CONNECT {elsewhere} HTTP/1.1\r\nhost: {elsewhere}\r\nx-api-key: {token}\r\n\r\n"
    ));
    assert_eq!(connect.code(), "not_a_proxy");
    let host = stage.send(&format!("GET /x HTTP/1.1\r\nhost: {elsewhere}\r\nx-forwarded-host: {elsewhere}\r\nx-api-key: {token}\r\n\r\n"));
    assert_eq!(host.status, 200);
    let path = stage
        .send(&format!("GET //{elsewhere}/x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n"));
    assert_eq!(path.status, 200);
    assert_eq!(other.connections(), 0);
    assert_eq!(server.seen().len(), 2);
}

/// P2: the client receives a redirect, and the proxy does not follow it with the key.
#[test]
fn p2_redirects_are_passed_on_and_never_followed() {
    let other = Server::echo();
    let location = format!("location: {}/steal\r\n", other.url());
    let server = Server::new(move |_, wire| reply(wire, "307 Temporary Redirect", &location, b""));
    let stage = Stage::new();
    let answer = stage.get(&stage.open_session(&server), "/x");
    assert_eq!(
        (answer.status, answer.header("location")),
        (307, Some(format!("{}/steal", other.url()).as_str()))
    );
    assert_eq!(other.connections(), 0);
}

/// P9: a server that echoes the key, in headers, in one piece, in two, and byte by byte.
#[test]
fn p9_a_key_in_an_answer_is_scrubbed() {
    let server = Server::new(|asked, wire| {
        let key = asked.header("authorization").unwrap();
        if asked.target() == "/whole" {
            return reply(
                wire,
                "401 Unauthorized",
                &format!("x-echo: {key}\r\n"),
                format!("bad key {key}!").as_bytes(),
            );
        }
        let pieces = if asked.target() == "/bytes" { 1 } else { 14 };
        crate::server::begin_chunks(wire, "");
        for piece in format!("bad key {key}!").as_bytes().chunks(pieces) {
            crate::server::chunk(wire, piece);
        }
        crate::server::chunk(wire, b"")
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    for path in ["/whole", "/pieces", "/bytes"] {
        let answer = stage.get(&token, path);
        assert!(answer.whole);
        assert_eq!(answer.text(), format!("bad key Bearer {}!", "*".repeat(KEY.len())), "{path}");
        assert!(!answer.head.contains(KEY), "{}", answer.head);
    }
}

#[test]
fn answers_lose_cookies_and_the_account() {
    let server = Server::new(|_, wire| {
        reply(
            wire,
            "200 OK",
            "set-cookie: a=b\r\nopenai-organization: org-1\r\nalt-svc: h3\r\nx-request-id: r1\r\nconnection: x-hop\r\nx-hop: 1\r\n",
            b"ok",
        )
    });
    let stage = Stage::new();
    let answer = stage.get(&stage.open_session(&server), "/x");
    for gone in ["set-cookie", "openai-organization", "alt-svc", "x-hop"] {
        assert_eq!(answer.header(gone), None, "{}", answer.head);
    }
    assert_eq!(answer.header("x-request-id"), Some("r1"));
}

#[test]
fn a_packed_answer_is_refused_because_it_cannot_be_looked_through() {
    let server = Server::new(|asked, wire| {
        let coding = asked
            .header("x-want")
            .map(|coding| format!("content-encoding: {coding}\r\n"))
            .unwrap_or_default();
        reply(wire, "200 OK", &coding, b"body")
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    let ask = |coding: &str| {
        stage.send(&format!(
            "GET /x HTTP/1.1\r\nhost: x\r\nx-want: {coding}\r\nx-api-key: {token}\r\n\r\n"
        ))
    };
    assert_eq!(ask("gzip").code(), "answer_encoded");
    assert_eq!(ask("identity").status, 200);
}

/// P6: a token that is unknown, wrong by one character, or missing.
#[test]
fn p6_only_a_token_opens_anything() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    let mut wrong = token.clone();
    wrong.replace_range(70.., if token.ends_with("00") { "11" } else { "00" });
    assert_eq!(stage.get(&wrong, "/x").code(), "token_unknown");
    assert_eq!(stage.get("", "/x").status, 401);
    assert_eq!(stage.send("GET /x HTTP/1.1\r\nhost: x\r\n\r\n").code(), "token_missing");
    assert!(server.seen().is_empty());
    // An unknown credential does not hide a known one, because some clients set both headers.
    let both = stage.send(&format!(
        "GET /x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer nothing\r\nx-api-key: {token}\r\n\r\n"
    ));
    assert_eq!(both.status, 200);
}
