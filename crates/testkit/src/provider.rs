//! A stand-in for a model provider: HTTP/1.1 on loopback, one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::authority::{Authority, Identity};

/// The type of a stream of events.
pub const EVENTS: &str = "text/event-stream";

/// What it answers: a media type, and the text.
pub type Answer = (&'static str, String);

/// The answer to a path and a body.
type Answers = dyn Fn(&str, &str) -> Answer + Send + Sync;

/// A provider that remembers what it was asked.
#[derive(Debug)]
pub struct Provider {
    url: String,
    asked: Asked,
}

/// Head and body of each request.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

impl Provider {
    /// One that anybody can read.
    pub fn plain(answers: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answers))
    }

    /// One behind TLS, which an authority of the test's own vouches for.
    pub fn secure(
        authority: &Authority,
        answers: impl Fn(&str, &str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(authority.vouch_for("localhost", &[])), Arc::new(answers))
    }

    fn start(identity: Option<Identity>, answers: Arc<Answers>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let port = listener.local_addr().expect("a listener has an address").port();
        let url = match identity {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        let asked = Asked::default();
        let seen = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (seen, answers, identity) = (seen.clone(), answers.clone(), identity.clone());
                // A client that hangs up in the middle of an answer does not want it.
                thread::spawn(move || match identity {
                    Some(identity) => serve(identity.accept(stream), &*answers, &seen),
                    None => serve(stream, &*answers, &seen),
                });
            }
        });
        Self { url, asked }
    }

    /// Where it listens, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The headers of every request.
    pub fn heads(&self) -> Vec<String> {
        self.asked().into_iter().map(|(head, _)| head).collect()
    }

    /// The body of every request, as it was sent.
    pub fn bodies(&self) -> Vec<String> {
        self.asked().into_iter().map(|(_, body)| body).collect()
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    mut stream: impl Read + Write,
    answers: &Answers,
    asked: &Mutex<Vec<(String, String)>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(&mut stream);
    let (path, length, head) = head(&mut reader)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let (kind, text) = answers(path.split('?').next().unwrap_or_default(), &body);
    asked.lock().unwrap_or_else(PoisonError::into_inner).push((head, body));
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )?;
    stream.flush()
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
