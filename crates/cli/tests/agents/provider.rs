//! A stand-in for a model provider: HTTP/1.1 on loopback, one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::{messages, responses};

/// What the model says once it has the result of its tool call.
pub(crate) const LAST_WORDS: &str = "the stand-in has seen enough";

/// A model that calls one tool, and then ends.
pub(crate) struct Provider {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<String>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    /// A model whose one idea is to run this command in a shell.
    pub(crate) fn start(command: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let address = listener.local_addr().expect("a listener has an address");
        let bodies = Arc::<Mutex<Vec<String>>>::default();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (heard, shown, command) = (bodies.clone(), heads.clone(), Arc::<str>::from(command));
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (heard, shown, command) = (heard.clone(), shown.clone(), command.clone());
                // An agent that hangs up in the middle of an answer does not want it.
                thread::spawn(move || serve(&stream, &command, &heard, &shown).ok());
            }
        });
        Self { address, bodies, heads }
    }

    /// Where it listens, without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that agents have sent, as they sent it.
    pub(crate) fn heard(&self) -> String {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// The headers of every request.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What came of the tool call.
    #[track_caller]
    pub(crate) fn result(&self) -> String {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let parsed = bodies.iter().filter_map(|body| serde_json::from_str(body).ok());
        let mut results =
            parsed.filter_map(|body| messages::result(&body).or_else(|| responses::result(&body)));
        results.next().unwrap_or_else(|| panic!("no tool result in {} requests", bodies.len()))
    }
}

fn serve(
    stream: &TcpStream,
    command: &str,
    heard: &Mutex<Vec<String>>,
    shown: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (path, length, all) = head(&mut reader)?;
    shown.lock().unwrap_or_else(PoisonError::into_inner).push(all);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let asked: Value = serde_json::from_str(&body).unwrap_or_default();
    heard.lock().unwrap_or_else(PoisonError::into_inner).push(body);
    let answer = match path.split('?').next().unwrap_or_default() {
        "/v1/messages" => events(&messages::answer(&asked, command)),
        "/v1/responses" => events(&responses::answer(&asked, command)),
        _ => "{}".to_owned(),
    };
    let kind = if answer == "{}" { "application/json" } else { "text/event-stream" };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
}

/// The path of a request, the length of its body, and all of its head.
fn head(reader: &mut impl BufRead) -> io::Result<(String, usize, String)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut head) = (0, line.clone());
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        head.push_str(&line);
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    Ok((path, length, head))
}

/// Server-sent events, named by their type.
fn events(events: &[Value]) -> String {
    let mut stream = String::new();
    for event in events {
        let name = event["type"].as_str().unwrap_or_default();
        stream.extend(["event: ", name, "\ndata: ", &event.to_string(), "\n\n"]);
    }
    stream
}
