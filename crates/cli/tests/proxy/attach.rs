//! Sandboxes pass their listeners to the proxy, and keep a copy.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use sandbox_proxy::attach::Attach;
use sandbox_proxy::client::{Attachment, Client, ClientError};
use sandbox_proxy::dirs::ProxyDirs;
use serde_json::json;
use testkit::Signal;

use crate::server::Server;
use crate::stage::{KEY, Stage, new_token, until};
use crate::wire::{Answer, Connection};

fn attach(
    stage: &Stage,
    id: &str,
    token: &str,
    server: &Server,
    listener: &TcpListener,
) -> Result<Attachment, ClientError> {
    let session = json!({ "token": token, "provider": "custom", "api_key": KEY, "upstream_url": server.url() });
    let attach = Attach {
        sandbox_id: id.into(),
        egress: None,
        sessions: vec![serde_json::from_value(session).unwrap()],
    };
    client(stage).attach(&attach, &[listener.as_fd()])
}

fn client(stage: &Stage) -> Client {
    Client::new(&ProxyDirs::at(stage.socket("admin").parent().unwrap()))
}

fn get(listener: &TcpListener, token: &str) -> Answer {
    let mut connection = Connection::to(listener.local_addr().unwrap());
    connection.write(
        format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nconnection: close\r\n\r\n")
            .as_bytes(),
    );
    connection.answer()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// P6, P8: a token is valid only on its sandbox's listener.
#[test]
fn p8_a_token_is_bound_to_the_listener_of_its_sandbox() {
    let (stage, server) = (Stage::new(), Server::echo());
    let (one, two) = (listener(), listener());
    let (first, second) = (new_token(), new_token());
    let _one = attach(&stage, "one", &first, &server, &one).unwrap();
    let _two = attach(&stage, "two", &second, &server, &two).unwrap();
    assert_eq!((get(&one, &first).status, get(&two, &second).status), (200, 200));
    assert_eq!((get(&one, &second).status, get(&two, &first).status), (401, 401));
    assert_eq!(stage.get(&first, "/x").status, 401);
    // The other way round: a session for all listeners is not valid on a sandbox's listener.
    let open = stage.open_session(&server);
    assert_eq!((stage.get(&open, "/x").status, get(&one, &open).status), (200, 401));
}

#[test]
fn everything_of_a_sandbox_ends_with_its_connection() {
    let (stage, server) = (Stage::new(), Server::echo());
    let (listener, token) = (listener(), new_token());
    let attachment = attach(&stage, "one", &token, &server, &listener).unwrap();
    assert_eq!(get(&listener, &token).status, 200);
    assert!(matches!(
        attach(&stage, "one", &token, &server, &listener),
        Err(ClientError::Refused { .. })
    ));
    assert!(!attachment.is_gone());
    drop(attachment);
    until("the session is gone", || {
        stage.admin("GET", "/v1/sessions", None).json().as_array().unwrap().is_empty().then_some(())
    });
    let again = attach(&stage, "one", &token, &server, &listener);
    assert!(again.is_ok());
    assert_eq!(get(&listener, &token).status, 200);
}

/// The supervisor keeps its listener. It attaches again after a restart of the proxy, and clients notice only a delay.
#[test]
fn a_sandbox_attaches_again_after_the_proxy_was_killed() {
    let (mut stage, server) = (Stage::new(), Server::echo());
    let (listener, token) = (listener(), new_token());
    let attachment = attach(&stage, "one", &token, &server, &listener).unwrap();
    assert_eq!(get(&listener, &token).status, 200);
    stage.stop(Signal::KILL);
    until("the end is noticed", || attachment.is_gone().then_some(()));
    // Without a proxy nothing passes, and new connections wait in the listener's queue.
    let mut waiting = Connection::to(listener.local_addr().unwrap());
    waiting.write(format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").as_bytes());
    stage.start();
    let before = server.seen().len();
    let _again = attach(&stage, "one", &token, &server, &listener).unwrap();
    assert_eq!(waiting.answer().status, 200);
    assert_eq!(server.seen().len(), before + 1);
}

#[test]
fn a_unix_socket_is_a_listener_too() {
    let (stage, server) = (Stage::new(), Server::echo());
    let path = stage.world.path("sock");
    let (listener, token) = (UnixListener::bind(&path).unwrap(), new_token());
    let session = json!({ "token": token, "provider": "custom", "api_key": KEY, "upstream_url": server.url() });
    let message = Attach {
        sandbox_id: "one".into(),
        egress: None,
        sessions: vec![serde_json::from_value(session).unwrap()],
    };
    let _attached = client(&stage).attach(&message, &[listener.as_fd()]).unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    let request =
        format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nconnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    assert_eq!(Answer::parse(&bytes).status, 200);
}

#[test]
fn what_is_no_listener_is_refused() {
    let stage = Stage::new();
    let file = std::fs::File::open("/dev/null").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let message = Attach { sandbox_id: "one".into(), egress: None, sessions: Vec::new() };
    for wrong in [file.as_fd(), udp.as_fd()] {
        assert!(matches!(
            client(&stage).attach(&message, &[wrong]),
            Err(ClientError::Refused { .. })
        ));
    }
    assert!(client(&stage).attach(&message, &[listener().as_fd()]).is_ok());
}
