//! P12: server-side tools of a provider do not bypass a closed network.

use serde_json::{Value, json};

use crate::server::{Server, reply};
use crate::stage::{KEY, Stage};
use crate::wire::Answer;

fn open() -> Server {
    Server::new(|_, wire| reply(wire, "200 OK", "", b"ok"))
}

/// Registers a session that may use these tools of the provider; `null` allows all.
fn session(stage: &Stage, server: &Server, provider: &str, tools: Value) -> String {
    let mut terms = json!({ "provider": provider, "api_key": KEY, "upstream_url": server.url() });
    if !tools.is_null() {
        terms["server_tools"] = tools;
    }
    stage.register(terms)
}

fn post(stage: &Stage, token: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut connection = stage.connect();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n{headers}content-length: {length}\r\n\r\n"
    );
    connection.write(&[head.as_bytes(), body].concat());
    connection.answer()
}

const JSON: &str = "content-type: application/json\r\n";

/// Request of Codex: its own tools, and a web search among them.
const CODEX: &str = r#"{"model":"m","tools":[{"type":"function","name":"exec_command"},{"type":"web_search","external_web_access":false}],"tool_choice":"auto","input":[]}"#;

#[test]
fn p12_a_search_that_is_offered_among_other_tools_is_taken_out() {
    let (stage, server) = (Stage::new(), open());
    let closed = session(&stage, &server, "openai", json!([]));
    assert_eq!(post(&stage, &closed, "/v1/responses", JSON, CODEX.as_bytes()).status, 200);
    let arrived = server.only();
    let expected = CODEX.replace(r#",{"type":"web_search","external_web_access":false}"#, "");
    assert_eq!(String::from_utf8(arrived.body.clone()).unwrap(), expected);
    assert_eq!(arrived.header("content-length"), Some(expected.len().to_string().as_str()));
    assert_eq!(stage.audit(1)[0]["taken_out"], json!(["web_search"]));
    for tools in [Value::Null, json!(["*"]), json!(["web_search"])] {
        let open = session(&stage, &server, "openai", tools);
        assert_eq!(post(&stage, &open, "/v1/responses", JSON, CODEX.as_bytes()).status, 200);
        assert_eq!(server.seen().last().unwrap().body, CODEX.as_bytes());
    }
}

/// Provider, path, refused field, its name in the message, and body.
const ASKED: &[(&str, &str, &str, &str, &str)] = &[
    (
        "anthropic",
        "/v1/messages",
        "tools[0]",
        "web_search_20250305",
        r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#,
    ),
    (
        "anthropic",
        "/v1/messages",
        "mcp_servers",
        "mcp",
        r#"{"mcp_servers":[{"type":"url","url":"https://evil.io"}]}"#,
    ),
    (
        "anthropic",
        "/v1/messages/count_tokens",
        "messages[0].content[0].source",
        "url",
        r#"{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"https://evil.io/?x"}}]}]}"#,
    ),
    (
        "anthropic-subscription",
        "/v1/messages",
        "tools[0]",
        "code_execution_20250825",
        r#"{"tools":[{"type":"code_execution_20250825"}]}"#,
    ),
    (
        "openai",
        "/v1/responses",
        "input[0].content[0].image_url",
        "url",
        r#"{"input":[{"content":[{"type":"input_image","image_url":"https://evil.io/?x"}]}]}"#,
    ),
    (
        "openai",
        "/v1/chat/completions",
        "web_search_options",
        "web_search",
        r#"{"web_search_options":{}}"#,
    ),
    (
        "openai-subscription",
        "/responses",
        "tools[0]",
        "mcp",
        r#"{"tools":[{"type":"mcp","server_url":"https://evil.io"}]}"#,
    ),
    (
        "gemini",
        "/v1beta/models/g:generateContent",
        "tools[0]",
        "url_context",
        r#"{"tools":[{"urlContext":{}}]}"#,
    ),
    (
        "anthropic",
        "/v1/messages",
        "messages[0].content[0].source.file_id",
        "files",
        r#"{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}"#,
    ),
    (
        "openai",
        "/v1/responses",
        "input[0].content[0].file_id",
        "files",
        r#"{"input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}"#,
    ),
    (
        "openai",
        "/v1/chat/completions",
        "messages[0].content[0].file.file_id",
        "files",
        r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"file-1"}}]}]}"#,
    ),
    (
        "gemini",
        "/v1beta/models/g:generateContent",
        "contents[0].parts[0].fileData.fileUri",
        "url",
        r#"{"contents":[{"parts":[{"fileData":{"fileUri":"files/1"}}]}]}"#,
    ),
    (
        "gemini",
        "/v1beta/models/g:generateContent",
        "cachedContent",
        "cached_content",
        r#"{"cachedContent":"cachedContents/1","contents":[]}"#,
    ),
    ("ollama", "/v1/messages", "tools[0]", "web_fetch", r#"{"tools":[{"type":"web_fetch"}]}"#),
];

/// Each of these passes where all tools are allowed, and is refused otherwise.
#[test]
fn p12_what_the_provider_would_do_or_fetch_is_refused_and_named() {
    let (stage, server) = (Stage::new(), open());
    let session = |provider: &str, tools| session(&stage, &server, provider, tools);
    for &(provider, path, field, tool, body) in ASKED {
        let (open, closed) = (session(provider, Value::Null), session(provider, json!([])));
        assert_eq!(post(&stage, &open, path, JSON, body.as_bytes()).status, 200, "{body}");
        let arrived = server.seen().len();
        let refused = post(&stage, &closed, path, JSON, body.as_bytes());
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "server_tool_denied"),
            "{body}"
        );
        let said = refused.json()["error"].clone();
        assert!(said["message"].as_str().unwrap().contains(&format!("`{field}`")), "{said}");
        assert!(
            said["hint"].as_str().unwrap().contains(&format!("\"{tool}\" to `server_tools`")),
            "{said}"
        );
        assert_eq!(server.seen().len(), arrived, "{body}");
        let named = session(provider, json!([tool]));
        assert_eq!(post(&stage, &named, path, JSON, body.as_bytes()).status, 200, "{body}");
    }
}

/// A body that another parser could read differently is refused, whatever it contains.
#[test]
fn p12_a_body_in_disguise_does_not_pass() {
    let (stage, server) = (Stage::new(), open());
    let (open, closed) = (
        session(&stage, &server, "openai", Value::Null),
        session(&stage, &server, "openai", json!(["mcp"])),
    );
    let wide: Vec<u8> = "{\"tools\":[]}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // The gzip of `{}`.
    let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0";
    for (headers, body) in [
        (JSON, &br#"{"tools":[],"tools":[{"type":"web_search"}]}"#[..]),
        (JSON, br#"{"tools":[],"t\u006fols":[{"type":"web_search"}]}"#),
        (JSON, b"{} {}"),
        (JSON, &wide),
        ("content-type: application/json\r\ncontent-encoding: gzip\r\n", packed),
        ("content-type: application/json\r\ncontent-encoding: identity, br\r\n", b"{}"),
        ("content-type: application/json; charset=utf-16\r\n", b"{}"),
        ("content-type: application/json\r\ncontent-type: text/plain\r\n", b"{}"),
        ("content-type: text/plain\r\n", b"{}"),
        ("content-type: application/x-www-form-urlencoded\r\n", b"tools=web_search"),
        ("content-type: multipart/form-data; boundary=x\r\n", b"--x--"),
        ("", b"{}"),
    ] {
        let arrived = server.seen().len();
        let refused = post(&stage, &closed, "/v1/responses", headers, body);
        let shown = String::from_utf8_lossy(body);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "body_unreadable"),
            "{headers}{shown}"
        );
        assert_eq!(server.seen().len(), arrived);
        assert_eq!(
            post(&stage, &open, "/v1/responses", headers, body).status,
            200,
            "{headers}{shown}"
        );
    }
    for kind in ["APPLICATION/JSON", "application/json; charset=UTF-8", "application/json;"] {
        let headers = format!("content-type: {kind}\r\ncontent-encoding: identity\r\n");
        assert_eq!(post(&stage, &closed, "/v1/responses", &headers, b"{}").status, 200, "{kind}");
    }
    // Also with other methods than `POST`, and without a length.
    let search = r#"{"tools":[{"type":"web_search"}]}"#;
    for method in ["GET", "PUT", "DELETE"] {
        let request = format!(
            "{method} /v1/responses HTTP/1.1\r\nhost: x\r\nx-api-key: {closed}\r\n{JSON}transfer-encoding: chunked\r\n\r\n{:x}\r\n{search}\r\n0\r\n\r\n",
            search.len()
        );
        assert_eq!(stage.send(&request).code(), "server_tool_denied", "{method}");
    }
}

#[test]
fn p12_files_and_speech_pass_only_where_they_are_named() {
    let (stage, server) = (Stage::new(), open());
    let form = "content-type: multipart/form-data; boundary=x\r\n";
    let send = |token: &str, path: &str| post(&stage, token, path, form, b"--x--");
    let closed = session(&stage, &server, "openai", json!([]));
    assert_eq!(send(&closed, "/v1/audio/transcriptions").status, 200);
    assert_eq!(send(&closed, "/v1/files").code(), "route_denied");
    let routes = |tools: Value| {
        stage.register(json!({ "provider": "openai", "api_key": KEY, "upstream_url": server.url(), "routes": ["*"], "server_tools": tools }))
    };
    assert_eq!(send(&routes(json!([])), "/v1/files").code(), "body_unreadable");
    assert_eq!(send(&routes(json!(["files"])), "/v1/files").status, 200);
}

/// The proxy does not inspect WebSocket messages, so it refuses WebSockets.
#[test]
fn p12_a_websocket_is_not_a_way_round() {
    let (stage, server) = (Stage::new(), open());
    let ask = |tools| {
        let token = session(&stage, &server, "openai", tools);
        stage.send(&format!("GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhl\r\nsec-websocket-version: 13\r\n\r\n"))
    };
    assert_eq!(ask(json!(["web_search"])).code(), "upgrade_denied");
    assert!(server.seen().is_empty());
    assert_eq!(ask(json!(["*"])).status, 200);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn p12_names_that_no_tool_can_have_are_refused() {
    let stage = Stage::new();
    let terms = json!({ "provider": "openai", "api_key": KEY, "server_tools": ["web search"] });
    let answer = stage.try_register(&crate::stage::new_token(), terms);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("web search"), "{}", answer.text());
}
