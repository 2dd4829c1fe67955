//! A provider on loopback that accepts one key and reports the key that it received.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use testkit::World;

/// The real key.
pub(super) const KEY: &str = "sk-real-0123456789abcdef";

/// Provider that runs until the test's process ends.
pub(super) struct Provider {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let heads = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heads = heads.clone();
                std::thread::spawn(move || answer(&stream, &heads));
            }
        });
        Self { url, seen }
    }

    /// Returns the heads of the received requests.
    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no thread panics with it").clone()
    }

    /// Creates a world whose project uses this provider through the proxy.
    pub(super) fn world(&self, more: &str) -> World {
        let config = format!(
            "{more}\n[secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = '{}'\n",
            self.url
        );
        World::new().file("home/policy.toml", config)
    }
}

fn answer(stream: &TcpStream, heads: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let taken = head.contains(KEY);
        heads.lock().expect("no thread panics with it").push(head);
        let (status, text) =
            if taken { ("200 OK", "taken") } else { ("401 Unauthorized", "refused") };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
