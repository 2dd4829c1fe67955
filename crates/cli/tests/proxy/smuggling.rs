//! P4: two parsers of one connection must never disagree about the end of a request (RFC 9112, 11.2).

use crate::server::Server;
use crate::stage::Stage;

/// Sends raw bytes, and waits until the proxy has closed the connection or answered all complete requests.
fn raw(stage: &Stage, server: &Server, bytes: &str) -> (Option<u16>, Vec<String>) {
    let before = server.seen().len();
    let mut connection = stage.connect();
    connection.write(bytes.as_bytes());
    connection.finish();
    let status = connection.until(b"\r\n").and_then(|line| {
        String::from_utf8(line).unwrap().split(' ').nth(1).and_then(|status| status.parse().ok())
    });
    let targets = server.seen()[before..].iter().map(|asked| asked.target().to_owned()).collect();
    (status, targets)
}

#[test]
#[allow(clippy::too_many_lines, reason = "one flat table")]
fn p4_requests_that_could_be_read_in_two_ways_do_not_reach_the_server_as_two() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    let head = format!("POST /first HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n");
    let second = format!(
        "GET /smuggled HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nconnection: close\r\n\r\n"
    );
    let length = second.len();
    for (why, bytes) in [
        (
            "both lengths, chunked first",
            format!(
                "{head}transfer-encoding: chunked\r\ncontent-length: {length}\r\n\r\n0\r\n\r\n{second}"
            ),
        ),
        (
            "both lengths, length first",
            format!(
                "{head}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}"
            ),
        ),
        (
            "two lengths",
            format!("{head}content-length: 0\r\ncontent-length: {length}\r\n\r\n{second}"),
        ),
        ("a list of lengths", format!("{head}content-length: 0, {length}\r\n\r\n{second}")),
        ("a signed length", format!("{head}content-length: +{length}\r\n\r\n{second}")),
        ("a hexadecimal length", format!("{head}content-length: 0x{length:x}\r\n\r\n{second}")),
        (
            "chunked is not last",
            format!("{head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{second}"),
        ),
        (
            "an unknown coding",
            format!("{head}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{second}"),
        ),
        ("two codings", format!("{head}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n{second}")),
        (
            "two coding headers",
            format!(
                "{head}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{second}"
            ),
        ),
        (
            "blank before the colon",
            format!("{head}transfer-encoding : chunked\r\n\r\n0\r\n\r\n{second}"),
        ),
        ("a folded header", format!("{head}x-a: b\r\n content-length: {length}\r\n\r\n{second}")),
        ("a bad chunk size", format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n{second}")),
        (
            "a negative chunk size",
            format!("{head}transfer-encoding: chunked\r\n\r\n-1\r\n\r\n{second}"),
        ),
        (
            "a chunk size that overflows",
            format!("{head}transfer-encoding: chunked\r\n\r\n{}1\r\nx\r\n{second}", "f".repeat(16)),
        ),
        (
            "a chunk without its end",
            format!("{head}transfer-encoding: chunked\r\n\r\n1\r\nxy0\r\n\r\n{second}"),
        ),
        (
            "a bare line feed in a header",
            format!("{head}x: a\nx-api-key: {token}\ncontent-length: {length}\r\n\r\n{second}"),
        ),
        ("a NUL in a header", format!("{head}x: a\0b\r\ncontent-length: {length}\r\n\r\n{second}")),
    ] {
        let (status, targets) = raw(&stage, &server, &bytes);
        assert!(!targets.contains(&"/smuggled".to_owned()), "{why}: {status:?} {targets:?}");
        assert!(targets.len() <= 1, "{why}: {targets:?}");
    }
    // The control: two plain requests on one connection are two.
    let mut connection = stage.connect();
    connection.write(format!("{head}content-length: 2\r\n\r\nok{second}").as_bytes());
    assert_eq!((connection.answer().status, connection.answer().status), (200, 200));
    assert_eq!(server.seen().pop().unwrap().target(), "/smuggled");
}

#[test]
fn p4_a_body_is_framed_again() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    let head =
        format!("POST /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nconnection: close\r\n");
    stage.send(
        &format!(
            "{head}transfer-encoding: chunked\r\n\r\n3;ext=\"a\"\r\nabc\r\n0\r\nx-api-key: trailing\r\n\r\n"
        ),
    );
    let asked = server.only();
    assert_eq!(asked.body, b"abc");
    assert!(!asked.head.contains("ext") && !asked.head.contains("trailing"), "{}", asked.head);
}

#[test]
fn malformed_requests_are_answered_or_closed_and_others_are_unaffected() {
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    for bytes in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{16}\u{3}\u{1}",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        "GET  /  HTTP/1.1\r\n\r\n",
        "GET /\0 HTTP/1.1\r\n\r\n",
        "* * HTTP/1.1\r\n\r\n",
    ] {
        let (status, _) = raw(&stage, &server, bytes);
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{bytes:?}: {status:?}");
    }
    let many = "x: y\r\n".repeat(500);
    assert!(
        raw(
            &stage,
            &server,
            &format!("GET /x HTTP/1.1\r\nhost: x\r\n{many}x-api-key: {token}\r\n\r\n")
        )
        .1
        .is_empty()
    );
    let long = "y".repeat(100_000);
    assert!(
        raw(
            &stage,
            &server,
            &format!("GET /x HTTP/1.1\r\nhost: x\r\nx: {long}\r\nx-api-key: {token}\r\n\r\n")
        )
        .1
        .is_empty()
    );
    assert_eq!(stage.get(&token, "/x").status, 200);
}
