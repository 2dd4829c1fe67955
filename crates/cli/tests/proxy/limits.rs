//! Limits of a session, and its usage.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::json;
use testkit::{Signal, need};

use crate::server::{Server, begin_chunks, chunk, reply};
use crate::stage::{KEY, Stage, until};

const USAGE: &[u8] = br#"{"content":[],"usage":{"input_tokens":60,"output_tokens":40}}"#;

fn counting() -> Server {
    Server::new(|_, wire| reply(wire, "200 OK", "content-type: application/json\r\n", USAGE))
}

/// P11: an exhausted budget stays exhausted.
#[test]
fn p11_a_budget_of_tokens_ends_the_session_when_it_is_used_up() {
    let (stage, server) = (Stage::new(), counting());
    let token = stage.register(json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url(), "limits": { "token_budget": 150 } }));
    assert_eq!(stage.post(&token, "/v1/messages", "{}").status, 200);
    until("the first is counted", || {
        (stage.admin("GET", "/v1/usage", None).json()["total"]["input"] == 60).then_some(())
    });
    assert_eq!(stage.post(&token, "/v1/messages", "{}").status, 200);
    until("the second is counted", || {
        (stage.admin("GET", "/v1/usage", None).json()["total"]["output"] == 80).then_some(())
    });
    let third = stage.post(&token, "/v1/messages", "{}");
    assert_eq!((third.status, third.code().as_str()), (403, "budget_used_up"));
    assert_eq!(third.header("x-should-retry"), Some("false"));
    assert_eq!(server.seen().len(), 2);
}

/// P11: disconnecting before the counts arrive is not free.
#[test]
fn p11_a_stream_that_the_client_cuts_off_is_estimated() {
    let server = Server::new(|_, wire| {
        begin_chunks(wire, "content-type: text/event-stream\r\n");
        chunk(
            wire,
            b"data: {\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n",
        );
        while chunk(wire, format!("data: {}\n\n", "word ".repeat(100)).as_bytes()) {}
        false
    });
    let stage = Stage::new();
    let token = stage.session(&server);
    let mut connection = stage.connect();
    connection.write(format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes());
    connection.head();
    for _ in 0..50 {
        connection.chunk().unwrap();
    }
    drop(connection);
    let line = &stage.audit(1)[0];
    assert_eq!((&line["tokens"]["input"], &line["estimated"]), (&json!(7), &json!(true)), "{line}");
    assert!(line["tokens"]["output"].as_u64().unwrap() > 100, "{line}");
}

#[test]
fn usage_is_counted_from_streams_and_from_json() {
    let server = Server::new(|asked, wire| {
        if asked.target() == "/v1/messages/count_tokens" {
            return reply(wire, "200 OK", "", br#"{"input_tokens":5000}"#);
        }
        begin_chunks(wire, "content-type: text/event-stream\r\n");
        chunk(wire, b"data: {\"message\":{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":5,\"output_tok");
        chunk(wire, b"ens\":1}}}\n\n");
        chunk(wire, b"data: {\"usage\":{\"output_tokens\":30}}\n\n");
        chunk(wire, b"")
    });
    let stage = Stage::new();
    let token = stage.session(&server);
    stage.post(&token, "/v1/messages", "{}");
    stage.post(&token, "/v1/messages/count_tokens", "{}");
    let lines = stage.audit(2);
    assert_eq!(lines[0]["tokens"], json!({ "input": 7, "output": 30, "cached": 5 }));
    assert_eq!(lines[1]["tokens"], json!({ "input": 0, "output": 0, "cached": 0 }));
    assert_eq!(lines[0]["path"], "/v1/messages");
    assert_eq!(lines[0]["method"], "POST");
    assert_eq!(lines[0]["status"], 200);
    assert_eq!(lines[0]["bytes_in"], 2);
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn rate_parallel_requests_and_the_end_of_a_session_are_held_to() {
    let (go, waits) = channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::new(move |asked, wire| {
        if asked.target() == "/wait" {
            waits.lock().unwrap().recv().unwrap();
        }
        reply(wire, "200 OK", "", b"ok")
    });
    let stage = Stage::new();
    let session = |limits: serde_json::Value| {
        stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": server.url(), "limits": limits }))
    };
    let rated = session(json!({ "requests_per_minute": 2 }));
    assert_eq!((stage.get(&rated, "/x").status, stage.get(&rated, "/x").status), (200, 200));
    let third = stage.get(&rated, "/x");
    assert_eq!(third.code(), "too_many_requests");
    assert!(third.header("retry-after").is_some());

    let single = session(json!({ "max_parallel": 1 }));
    let mut waiting = stage.connect();
    waiting
        .write(format!("GET /wait HTTP/1.1\r\nhost: x\r\nx-api-key: {single}\r\n\r\n").as_bytes());
    until("one is under way", || {
        server.seen().iter().any(|asked| asked.target() == "/wait").then_some(())
    });
    assert_eq!(stage.get(&single, "/x").code(), "too_many_parallel");
    go.send(()).unwrap();
    assert_eq!(waiting.answer().status, 200);
    until("the next is let in", || (stage.get(&single, "/x").status == 200).then_some(()));

    let ended = session(json!({ "expires_at": 1 }));
    assert_eq!(stage.get(&ended, "/x").status, 401);
}

/// The clock is `CLOCK_BOOTTIME`, which cannot be set, also across a restart of the proxy: hours of suspend count, and a
/// wall clock that is set back does not.
#[test]
fn a_session_ends_by_the_boot_clock() {
    let (mut stage, server) = (Stage::new(), counting());
    let end = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 3600;
    stage.world.write("key", KEY);
    let token = stage.register(json!({ "provider": "custom", "upstream_url": server.url(),
        "secret": { "file": stage.world.path("key") }, "limits": { "expires_at": end } }));
    assert_eq!(stage.get(&token, "/x").status, 200);
    stage.stop(Signal::TERM);
    stage.start();
    assert_eq!(stage.get(&token, "/x").status, 200);
    stage.stop(Signal::TERM);
    // Two hours later by that clock, and not a second by the wall clock.
    let unshare = need("unshare").display().to_string();
    let later = [
        unshare.as_str(),
        "--user",
        "--map-current-user",
        "--time",
        "--boottime=7200",
        "--fork",
        "--kill-child",
    ];
    stage.start_by(&later);
    assert_eq!(stage.get(&token, "/x").status, 401);
    stage.stop(Signal::KILL);
}

#[test]
fn only_listed_models_are_asked() {
    let (stage, server) = (Stage::new(), counting());
    let token = stage.register(json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url(), "limits": { "models": ["claude-haiku-*"] } }));
    assert_eq!(stage.post(&token, "/v1/messages", r#"{"model":"claude-haiku-5"}"#).status, 200);
    assert_eq!(server.only().body, br#"{"model":"claude-haiku-5"}"#);
    for (body, code) in [
        (r#"{"model":"claude-opus-5"}"#, "model_denied"),
        (r#"{"model":"claude-haiku-5","model":"claude-opus-5"}"#, "model_unknown"),
        (r#"{"m\u006fdel":"claude-opus-5"}"#, "model_denied"),
        ("{}", "model_unknown"),
        ("model=claude-haiku-5", "model_unknown"),
    ] {
        assert_eq!(stage.post(&token, "/v1/messages", body).code(), code, "{body}");
    }
    assert_eq!(server.seen().len(), 1);
    assert_eq!(stage.get(&token, "/v1/models").status, 200);
}

#[test]
fn a_body_that_is_too_large_does_not_arrive() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": server.url(), "limits": { "max_body": 1000 } }));
    assert_eq!(stage.post(&token, "/x", &"x".repeat(1000)).status, 200);
    assert_eq!(stage.post(&token, "/x", &"x".repeat(1001)).code(), "body_too_large");
    let piece = format!("200\r\n{}\r\n", "x".repeat(512));
    let answer = stage.send(&format!("POST /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", piece.repeat(3)));
    assert_eq!(answer.code(), "body_too_large");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_large_body_passes_and_takes_no_memory() {
    let size = testkit::rounds(64 << 20, 1 << 30);
    let server = Server::over(
        |_, _| false,
        move |mut stream| {
            use std::io::{Read, Write};
            let (mut buffer, mut length) = (vec![0; 1 << 20], 0);
            while length < size {
                length += stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                .ok()?;
            None
        },
    );
    let stage = Stage::new();
    let token = stage.open_session(&server);
    let mut connection = stage.connect();
    connection.write(
        format!(
            "POST /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: {size}\r\n\r\n"
        )
        .as_bytes(),
    );
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..size >> 20 {
        connection.write(&piece);
    }
    assert_eq!(connection.answer().status, 200);
    assert!(stage.memory() < 40 << 20, "{}", stage.memory());
}
