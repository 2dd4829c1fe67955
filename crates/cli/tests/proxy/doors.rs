//! Containers pass their listeners to the proxy over a rendezvous socket, again after every restart.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sandbox_proxy::client::Client;
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::rendezvous::{NewRendezvous, Rendezvous};
use serde_json::json;
use testkit::Signal;

use crate::server::Server;
use crate::stage::{KEY, Stage, new_token, until};
use crate::wire::{Answer, Connection};

fn client(stage: &Stage) -> Client {
    Client::new(&ProxyDirs::at(stage.socket("admin").parent().unwrap()))
}

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates the rendezvous socket of a sandbox, and returns its path.
fn open(stage: &Stage, id: &str, peer: u32, session: serde_json::Value) -> PathBuf {
    let dir = stage.world.path(format!("door-{id}"));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("attach.sock");
    let rendezvous = Rendezvous { path: path.clone(), peer, policy: None, record: None };
    let sessions = vec![serde_json::from_value(session).unwrap()];
    client(stage).open_rendezvous(id, &NewRendezvous { rendezvous, sessions }).unwrap();
    path
}

fn with_key(token: &str, server: &Server) -> serde_json::Value {
    json!({ "token": token, "provider": "custom", "api_key": KEY, "upstream_url": server.url() })
}

/// Sends a listener as a container's first process does.
fn knock(path: &PathBuf, sockets: &[BorrowedFd<'_>]) -> (UnixStream, String) {
    speak(UnixStream::connect(path).unwrap(), sockets)
}

fn speak(mut stream: UnixStream, sockets: &[BorrowedFd<'_>]) -> (UnixStream, String) {
    // The proxy may refuse and close before the client has sent its message.
    let _ = sandbox_linux::channel::send_with(stream.as_fd(), b"listeners\n", sockets);
    let mut text = [0; 200];
    let count = stream.read(&mut text).unwrap_or(0);
    (stream, String::from_utf8_lossy(&text[..count]).into_owned())
}

fn get(listener: &TcpListener, token: &str) -> Answer {
    let mut connection = Connection::to(listener.local_addr().unwrap());
    let text =
        format!("GET /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nconnection: close\r\n\r\n");
    connection.write(text.as_bytes());
    connection.answer()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn a_container_comes_and_goes_and_its_sessions_stay() {
    let (stage, server) = (Stage::new(), Server::echo());
    let (token, inside) = (new_token(), listener());
    let path = open(&stage, "box", us(), with_key(&token, &server));
    for _ in 0..2 {
        let (_connection, said) = knock(&path, &[inside.as_fd()]);
        assert_eq!(said, "ok\n");
        assert_eq!(get(&inside, &token).status, 200);
    }
    // Only there, and only its own.
    assert_eq!(stage.get(&token, "/x").status, 401);
    assert_eq!(get(&inside_of(&stage, "other", &server), &token).status, 401);
    client(&stage).close_rendezvous("box").unwrap();
    client(&stage).close_rendezvous("box").unwrap();
    assert!(!path.try_exists().unwrap(), "its socket is gone");
    let left = stage.admin("GET", "/v1/sessions", None).json();
    assert!(left.as_array().unwrap().iter().all(|session| session["sandbox_id"] != "box"));
}

/// Opens a listener of another sandbox that the proxy serves.
fn inside_of(stage: &Stage, id: &str, server: &Server) -> TcpListener {
    let path = open(stage, id, us(), with_key(&new_token(), server));
    let inside = listener();
    let (connection, said) = knock(&path, &[inside.as_fd()]);
    assert_eq!(said, "ok\n");
    // The proxy serves it until the end of the test.
    std::mem::forget(connection);
    inside
}

/// Keys sent by value are in no file. Keys by reference are read again.
#[test]
fn a_door_is_there_again_after_the_proxy_was_killed() {
    let (mut stage, server) = (Stage::new(), Server::echo());
    let file = stage.world.path("key");
    std::fs::write(&file, KEY).unwrap();
    let token = new_token();
    let session = json!({
        "token": token, "provider": "custom", "secret": { "file": file }, "upstream_url": server.url()
    });
    let path = open(&stage, "box", us(), session);
    let inside = listener();
    let (mut connection, _) = knock(&path, &[inside.as_fd()]);
    assert_eq!(get(&inside, &token).status, 200);
    stage.stop(Signal::KILL);
    assert_eq!(connection.read(&mut [0; 8]).unwrap_or(0), 0, "the end is noticed");
    stage.start();
    let _again = until("the door is open", || {
        let stream = UnixStream::connect(&path).ok()?;
        let (stream, said) = speak(stream, &[inside.as_fd()]);
        (said == "ok\n").then_some(stream)
    });
    assert_eq!(get(&inside, &token).status, 200);
    let kept = std::fs::read_to_string(stage.file("doors.json")).unwrap();
    assert!(!kept.contains(KEY) && !kept.contains(&token), "{kept}");
}

#[test]
fn only_its_own_first_process_is_let_in_and_only_with_listeners() {
    let (stage, server) = (Stage::new(), Server::echo());
    let inside = listener();
    let path = open(&stage, "box", us() + 1, with_key(&new_token(), &server));
    let (_connection, said) = knock(&path, &[inside.as_fd()]);
    assert!(said.contains("only the first process"), "{said}");
    let path = open(&stage, "box", us(), with_key(&new_token(), &server));
    let file = std::fs::File::open("/dev/null").unwrap();
    let (_connection, said) = knock(&path, &[file.as_fd()]);
    assert!(!said.starts_with("ok"), "{said}");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"listeners\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("expected one or five sockets"), "{text}");
    assert_eq!(knock(&path, &[inside.as_fd()]).1, "ok\n");
}
