//! Bytes pass as they arrive, and a truncated response never looks complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::server::{Server, begin_chunks, chunk, reply};
use crate::stage::{KEY, Stage, until};

/// The server sends the next event only after the client has read the previous one, so a proxy that buffers one
/// would block.
#[test]
fn every_event_arrives_before_the_next_is_sent() {
    let (next, waits) = channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::new(move |_, wire| {
        begin_chunks(wire, "content-type: text/event-stream\r\n");
        for number in 0..20 {
            chunk(wire, format!("data: {number}\n\n").as_bytes());
            waits.lock().unwrap().recv().unwrap();
        }
        chunk(wire, b"")
    });
    let stage = Stage::new();
    let token = stage.session(&server);
    let mut connection = stage.connect();
    connection.write(format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes());
    assert!(connection.head().contains("text/event-stream"));
    for number in 0..20 {
        assert_eq!(connection.chunk().unwrap(), format!("data: {number}\n\n").as_bytes());
        next.send(()).unwrap();
    }
    assert_eq!(connection.chunk().unwrap(), b"");
}

/// The reverse direction: each piece of a body reaches the server before the client writes the next.
#[test]
fn a_body_streams_to_the_server_as_it_is_written() {
    let (arrived, seen) = channel::<Vec<u8>>();
    let arrived = Mutex::new(arrived);
    let server = Server::over(
        |_, _| false,
        move |mut stream| {
            use std::io::{Read, Write};
            let mut buffer = [0; 4096];
            let mut all = Vec::new();
            while !all.ends_with(b"0\r\n\r\n") {
                let count = stream.read(&mut buffer).ok()?;
                all.extend_from_slice(&buffer[..count]);
                arrived.lock().unwrap().send(all.clone()).ok()?;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
            None
        },
    );
    let stage = Stage::new();
    let token = stage.session(&server);
    let mut connection = stage.connect();
    connection.write(format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes());
    for number in 0..5 {
        let piece = format!("piece {number}");
        connection.write(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes());
        while !String::from_utf8_lossy(&seen.recv().unwrap()).contains(&piece) {}
    }
    connection.write(b"0\r\n\r\n");
    assert_eq!(connection.answer().status, 200);
}

#[test]
fn an_answer_that_breaks_off_ends_in_a_broken_connection() {
    let server = Server::new(|asked, wire| match asked.target() {
        "/chunked" => {
            begin_chunks(wire, "");
            chunk(wire, b"half");
            false
        }
        "/length" => {
            let _ = wire.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
            false
        }
        "/chunk" => {
            begin_chunks(wire, "");
            let _ = wire.write_all(b"ff\r\nhalf");
            false
        }
        _ => {
            begin_chunks(wire, "");
            chunk(wire, b"half");
            chunk(wire, b"")
        }
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    for (path, whole) in
        [("/chunked", false), ("/length", false), ("/chunk", false), ("/whole", true)]
    {
        let answer = stage.get(&token, path);
        assert_eq!((answer.status, answer.whole), (200, whole), "{path}: {answer:?}");
        assert!(answer.body.starts_with(b"half"));
    }
    let outcomes: Vec<_> =
        stage.audit(4).iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        outcomes,
        ["upstream_broke_off", "upstream_broke_off", "upstream_broke_off", "complete"]
    );
}

#[test]
fn a_server_that_says_nothing_or_nonsense_is_a_502() {
    let server = Server::new(|asked, wire| {
        if asked.target() == "/nonsense" {
            let _ = wire.write_all(b"SSH-2.0-OpenSSH\r\n\r\n");
        }
        false
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    assert_eq!(
        (stage.get(&token, "/silent").status, stage.get(&token, "/nonsense").status),
        (502, 502)
    );
    let gone = stage.register(
        json!({ "provider": "custom", "api_key": KEY, "upstream_url": "http://127.0.0.1:1" }),
    );
    assert_eq!(stage.get(&gone, "/x").code(), "upstream_unreachable");
}

#[test]
fn the_server_is_left_alone_when_the_client_goes() {
    let gone = Arc::new(AtomicBool::new(false));
    let told = gone.clone();
    let server = Server::new(move |asked, wire| {
        if asked.target() == "/stream" {
            begin_chunks(wire, "");
            while chunk(wire, &[b'x'; 1024]) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        } else {
            // No response: the test waits for the end of the connection.
            let _ = wire.read(&mut [0]);
        }
        told.store(true, Ordering::SeqCst);
        false
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    for path in ["/stream", "/waiting"] {
        let before = server.seen().len();
        let mut connection = stage.connect();
        connection.write(
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").as_bytes(),
        );
        until("the server was asked", || (server.seen().len() > before).then_some(()));
        if path == "/stream" {
            connection.chunk_after_head();
        }
        drop(connection);
        until("the server is left alone", || gone.swap(false, Ordering::SeqCst).then_some(()));
    }
    assert!(stage.audit(2).iter().all(|line| line["outcome"] == "client_gone"));
}

#[test]
fn connections_to_the_server_are_used_again() {
    let server = Server::new(|asked, wire| {
        if asked.target() == "/chunked" {
            begin_chunks(wire, "");
            chunk(wire, b"ok");
            return chunk(wire, b"");
        }
        reply(wire, "200 OK", "", if asked.target() == "/empty" { b"" } else { b"ok" })
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    let mut connection = stage.connect();
    for path in ["/length", "/chunked", "/empty", "/length", "/chunked"] {
        connection.write(
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").as_bytes(),
        );
        assert_eq!(connection.answer().status, 200);
    }
    assert_eq!(server.connections(), 1);
    assert!((stage.metric("upstream_connections_total") - 1.0).abs() < 0.1);
}

#[test]
fn a_connection_that_the_server_closed_is_replaced() {
    let server = Server::new(|_, wire| {
        reply(wire, "200 OK", "", b"ok");
        false
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    for _ in 0..5 {
        assert_eq!(stage.get(&token, "/x").status, 200);
    }
    assert_eq!(server.seen().len(), 5);
}

/// Events of 200 bytes for a while, with the key in the middle of some: memory use does not grow.
#[test]
fn an_endless_stream_takes_no_memory() {
    let rounds = testkit::rounds(2_000, 200_000);
    let server = Server::new(move |_, wire| {
        begin_chunks(wire, "content-type: text/event-stream\r\n");
        let event = format!("data: {}\n\n", "x".repeat(2000));
        for _ in 0..rounds {
            chunk(wire, event.as_bytes());
        }
        chunk(wire, b"")
    });
    let stage = Stage::new();
    let token = stage.session(&server);
    stage.get(&stage.open_session(&Server::echo()), "/warm");
    let before = stage.memory();
    let mut connection = stage.connect();
    connection.write(format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes());
    connection.head();
    assert_eq!(connection.chunks_length(), rounds * 2008);
    let after = stage.memory();
    assert!(after < before + (4 << 20), "{before} → {after}");
}

/// A client that does not read blocks its own stream, and the proxy does not buffer for it.
#[test]
fn a_client_that_does_not_read_is_not_read_for() {
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let server = Server::new(move |_, wire| {
        begin_chunks(wire, "");
        while count.load(Ordering::SeqCst) < 64 << 20 && chunk(wire, &vec![b'x'; 65536]) {
            count.fetch_add(65536, Ordering::SeqCst);
        }
        chunk(wire, b"")
    });
    let stage = Stage::new();
    let token = stage.open_session(&server);
    let mut connection = stage.connect();
    connection
        .write(format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").as_bytes());
    connection.head();
    // Until no more bytes move.
    let stuck = until("the stream stands", || {
        let before = sent.load(Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(300));
        (before > 0 && sent.load(Ordering::SeqCst) == before).then_some(before)
    });
    assert!(stuck < 48 << 20, "{stuck} bytes were taken from the server");
    assert!(stage.memory() < 40 << 20);
    assert_eq!(connection.chunks_length(), 64 << 20);
}

/// Servers send checksums, or the status of a gRPC call, after the body.
#[test]
fn trailers_reach_the_client_behind_the_whole_body() {
    let stage = Stage::new();
    let server = Server::new(|asked, wire| {
        let wanted = asked.header("te").unwrap_or("nothing").to_owned();
        let listed = asked.header("connection").unwrap_or("nothing").to_owned();
        begin_chunks(wire, "trailer: X-Sum, set-cookie\r\ntrailer: x-echo\r\n");
        // The end of the body may be the beginning of the key, so it is held until the next bytes decide.
        chunk(wire, b"the end is sk-re");
        let trailers =
            format!("0\r\nx-sum: {wanted}/{listed}\r\nset-cookie: a=b\r\nx-echo: {KEY}\r\n\r\n");
        wire.write_all(trailers.as_bytes()).is_ok()
    });
    let token = stage.open_session(&server);
    let ask = |more: &str| {
        let mut connection = stage.connect();
        connection.write(
            format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n{more}\r\n").as_bytes(),
        );
        connection.rest()
    };
    let wanted = ask("te: trailers\r\nconnection: te, close\r\n");
    assert!(wanted.contains("\r\ntrailer: x-sum, x-echo\r\n"), "{wanted}");
    let expected = "the end is sk-re\r\n0\r\nx-sum: trailers/te\r\nx-echo: [scrubbed]\r\n\r\n";
    let joined = wanted.replace("\r\n5\r\nsk-re", "sk-re");
    assert!(joined.ends_with(expected), "{wanted}");
    // A client without `TE: trailers` receives only the body (RFC 9110, 6.5.1).
    let plain = ask("connection: close\r\n");
    assert!(plain.contains("sk-re") && plain.ends_with("\r\n0\r\n\r\n"), "{plain}");
    assert_eq!(server.seen().last().unwrap().count("te"), 0);
    // The connection to the server is reused. Each worker has its own, so only one client sends requests.
    let before = server.connections();
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection.write(
            format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nte: trailers\r\nconnection: te\r\n\r\n")
                .as_bytes(),
        );
        connection.until(b"x-echo: [scrubbed]\r\n\r\n").unwrap();
    }
    assert!(server.connections() <= before + 1, "{} after {before}", server.connections());
}
