//! WebSockets: the proxy swaps the credential in the handshake, and passes the messages on without the key.

use serde_json::json;

use crate::server::{Server, reply};
use crate::stage::{KEY, Stage};

/// Server that accepts, echoes messages, and sends the key after "key?".
fn talking() -> Server {
    Server::new(|asked, wire| {
        if asked.header("upgrade") != Some("websocket") {
            return reply(wire, "400 Bad Request", "", b"no upgrade");
        }
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: abc\r\nset-cookie: a=b\r\n\r\n";
        wire.write_all(head.as_bytes()).unwrap();
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = wire.read(&mut buffer) {
            let heard = &buffer[..count];
            let said = if heard == b"key?" {
                asked.header("authorization").unwrap().as_bytes()
            } else {
                heard
            };
            if wire.write_all(said).is_err() {
                break;
            }
        }
        false
    })
}

fn handshake(token: &str, extra: &str) -> String {
    format!(
        "GET /v1/realtime?model=x HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhl\r\n\
         sec-websocket-version: 13\r\nsec-websocket-extensions: permessage-deflate\r\n{extra}authorization: Bearer {token}\r\n\r\n"
    )
}

#[test]
fn a_websocket_goes_through_with_the_real_key() {
    let (stage, server) = (Stage::new(), talking());
    let token = stage
        .register(json!({ "provider": "openai", "api_key": KEY, "upstream_url": server.url() }));
    let mut connection = stage.connect();
    let protocols =
        format!("sec-websocket-protocol: realtime, openai-insecure-api-key.{token}\r\n");
    connection.write(handshake(&token, &protocols).as_bytes());
    let head = connection.head();
    assert!(
        head.starts_with("HTTP/1.1 101")
            && head.contains("sec-websocket-accept: abc")
            && !head.contains("cookie"),
        "{head}"
    );
    for word in ["hello", "again"] {
        connection.write(word.as_bytes());
        assert_eq!(connection.until(word.as_bytes()).unwrap(), word.as_bytes());
    }
    connection.write(b"key?");
    let said = connection.until(b"*".repeat(KEY.len()).as_slice()).unwrap();
    assert_eq!(said, format!("Bearer {}", "*".repeat(KEY.len())).as_bytes());
    drop(connection);
    let asked = server.only();
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked.header("sec-websocket-protocol"), Some("realtime"));
    assert_eq!(
        (asked.header("sec-websocket-extensions"), asked.header("sec-websocket-key")),
        (None, Some("dGhl"))
    );
    assert!(!asked.head.contains(&token[8..]), "{}", asked.head);
    assert_eq!(stage.audit(1)[0]["status"], 101);
}

#[test]
fn a_websocket_needs_a_token_and_a_route_like_everything_else() {
    let (stage, server) = (Stage::new(), talking());
    assert_eq!(stage.send(&handshake("session-nothing", "")).status, 401);
    let token = stage
        .register(json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url() }));
    assert_eq!(stage.send(&handshake(&token, "")).code(), "route_denied");
    let token = stage.register(json!({ "provider": "openai", "api_key": KEY, "upstream_url": server.url(), "limits": { "models": ["x"] } }));
    assert_eq!(stage.send(&handshake(&token, "")).code(), "upgrade_denied");
    let token = stage.open_session(&server);
    let other = handshake(&token, "").replace("upgrade: websocket", "upgrade: h2c");
    assert_eq!(stage.send(&other).code(), "upgrade");
    assert!(server.seen().is_empty());
}

#[test]
fn a_server_that_declines_is_heard() {
    let server = Server::new(|_, wire| reply(wire, "403 Forbidden", "", b"not here"));
    let stage = Stage::new();
    let answer = stage.send(&handshake(&stage.open_session(&server), ""));
    assert_eq!((answer.status, answer.text().as_str()), (403, "not here"));
}
