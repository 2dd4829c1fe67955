//! Timeouts for each stage of a request. A request that makes progress has none.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, begin_chunks, chunk, reply};
use crate::stage::{KEY, Stage};

fn terms(url: &str, limits: &Value) -> Value {
    json!({ "provider": "custom", "api_key": KEY, "upstream_url": url, "limits": limits })
}

/// Opens a port whose accept queue is full, so that the kernel drops new connections (`listen(2)`).
fn swallowing() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let try_it = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let queue: Vec<_> = std::iter::from_fn(|| try_it().ok()).take(8).collect();
    assert!(queue.len() < 8, "the queue of a listener has no end");
    (listener, queue)
}

#[test]
fn a_server_that_takes_no_connection_is_given_up() {
    let stage = Stage::new();
    let (listener, queue) = swallowing();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let token = stage.register(terms(&url, &json!({ "connect_timeout": 1 })));
    let answer = stage.get(&token, "/x");
    assert_eq!((answer.status, answer.code().as_str()), (502, "connect_timeout"));
    // The control: the same server, once it accepts connections.
    let server = std::thread::spawn(move || {
        rustix::net::listen(&listener, 16).unwrap();
        drop(queue);
        for mut stream in listener.incoming().map_while(Result::ok) {
            if crate::server::read(&mut stream).is_some() {
                reply(&mut stream, "200 OK", "", b"back");
                return;
            }
        }
    });
    let patient = stage.register(terms(&url, &json!({})));
    assert_eq!(stage.get(&patient, "/x").text(), "back");
    server.join().unwrap();
}

#[test]
fn a_server_that_says_nothing_is_given_up_and_one_that_thinks_is_not() {
    let server = Server::new(|asked, wire| {
        if asked.target() == "/silent" {
            let _ = wire.read(&mut [0]);
            return false;
        }
        std::thread::sleep(Duration::from_millis(1500));
        reply(wire, "200 OK", "", b"thought about it")
    });
    let stage = Stage::new();
    let hasty = stage.register(terms(&server.url(), &json!({ "first_byte_timeout": 1 })));
    for path in ["/silent", "/thinks"] {
        let answer = stage.get(&hasty, path);
        assert_eq!((answer.status, answer.code().as_str()), (504, "first_byte_timeout"), "{path}");
    }
    let patient = stage.open_session(&server);
    assert_eq!(stage.get(&patient, "/thinks").text(), "thought about it");
}

#[test]
fn an_answer_that_stands_still_is_broken_off_and_a_long_one_is_not() {
    let server = Server::new(|asked, wire| {
        begin_chunks(wire, "content-type: text/event-stream\r\n");
        chunk(wire, b"data: first\n\n");
        if asked.target() == "/stands" {
            let _ = wire.read(&mut [0]);
            return false;
        }
        // Twice as long as allowed between two of them.
        for _ in 0..16 {
            std::thread::sleep(Duration::from_millis(500));
            chunk(wire, b"data: more\n\n");
        }
        chunk(wire, b"")
    });
    let stage = Stage::new();
    let hasty = stage.register(terms(&server.url(), &json!({ "idle_timeout": 1 })));
    let broken = stage.get(&hasty, "/stands");
    assert_eq!((broken.status, broken.whole), (200, false));
    assert_eq!(broken.body, b"data: first\n\n");
    assert_eq!(stage.audit(1)[0]["outcome"], "upstream_broke_off");
    let steady = stage.register(terms(&server.url(), &json!({ "idle_timeout": 4 })));
    assert!(stage.get(&steady, "/long").whole);
}

#[test]
fn a_body_that_stands_still_is_given_up() {
    let (stage, server) = (Stage::new(), Server::echo());
    let hasty = stage.register(terms(&server.url(), &json!({ "idle_timeout": 1 })));
    let head = |token: &str| {
        format!(
            "POST /x HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 8\r\n\r\nhalf"
        )
    };
    let answer = stage.send(&head(&hasty));
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_incomplete"));
    let mut whole = stage.connect();
    whole.write(head(&stage.open_session(&server)).as_bytes());
    whole.write(b"half");
    assert_eq!(whole.answer().status, 200);
    let refused = stage.try_register(
        &crate::stage::new_token(),
        terms(&server.url(), &json!({ "idle_timeout": 0 })),
    );
    assert_eq!(refused.status, 400, "{}", refused.text());
}
