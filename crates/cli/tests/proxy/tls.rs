//! TLS to servers: only the user's own authorities and the public ones are trusted.

use std::io::Write as _;

use serde_json::json;
use testkit::Authority;

use crate::server::{Server, Wire, begin_chunks, chunk, reply};
use crate::stage::{KEY, Stage};

/// Server with a certificate for this name.
fn server(authority: &Authority, name: &str, protocols: &[&[u8]]) -> Server {
    let identity = authority.vouch_for(name, protocols);
    Server::over(
        |asked, wire| match asked.target() {
            "/cut" => {
                begin_chunks(wire, "");
                chunk(wire, b"half");
                false
            }
            "/until-close" => {
                // Without a length, only the close_notify of TLS marks the end of the body, and it never comes.
                let _ = wire.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf");
                let _ = wire.flush();
                false
            }
            _ => reply(wire, "200 OK", "", asked.head.as_bytes()),
        },
        move |stream| Some(Box::new(identity.accept(stream)) as Box<dyn Wire>),
    )
}

/// Starts a proxy that trusts this authority.
fn stage(authority: &Authority) -> (Stage, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    let stage = Stage::with_env(&[("SSL_CERT_FILE", file.path().to_str().unwrap())]);
    (stage, file)
}

fn session(stage: &Stage, server: &Server) -> String {
    let url = format!("https://localhost:{}", server.address.port());
    stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": url }))
}

#[test]
fn a_server_is_reached_by_tls_when_a_known_authority_vouches_for_its_name() {
    let authority = Authority::default();
    let server = server(&authority, "localhost", &[]);
    let (stage, _file) = stage(&authority);
    let token = session(&stage, &server);
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection
            .write(format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").as_bytes());
        let answer = connection.answer();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(server.seen()[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[test]
fn a_server_with_an_unknown_certificate_receives_no_key() {
    let (ours, theirs) = (Authority::default(), Authority::default());
    let (stage, _file) = stage(&ours);
    for server in [server(&theirs, "localhost", &[]), server(&ours, "elsewhere.example", &[])] {
        let answer = stage.get(&session(&stage, &server), "/x");
        assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_tls"));
        assert!(server.seen().is_empty());
    }
    assert_eq!(
        stage.get(&session(&stage, &server(&ours, "localhost", &[b"http/1.1"])), "/x").status,
        200
    );
}

#[test]
fn an_answer_that_is_cut_off_below_tls_is_broken_too() {
    let authority = Authority::default();
    let server = server(&authority, "localhost", &[]);
    let (stage, _file) = stage(&authority);
    let token = session(&stage, &server);
    for path in ["/cut", "/until-close"] {
        let answer = stage.get(&token, path);
        assert!(
            !answer.whole || stage.audit(1).last().unwrap()["outcome"] == "upstream_broke_off",
            "{path}: {answer:?}"
        );
    }
    assert!(stage.audit(2).iter().all(|line| line["outcome"] == "upstream_broke_off"));
}
