//! Fake model provider: HTTP/1.1 on loopback, one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::authority::{Authority, Identity};

/// Media type of an event stream.
pub const EVENTS: &str = "text/event-stream";

/// Response: a media type and a body.
pub type Answer = (&'static str, String);

/// Function from a path and a body to a response.
type Answers = dyn Fn(&str, &str) -> Answer + Send + Sync;

/// Provider that records its requests.
#[derive(Debug)]
pub struct Provider {
    url: String,
    asked: Asked,
}

/// Head and body of each request.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

impl Provider {
    /// Starts a provider without TLS.
    pub fn plain(answers: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answers))
    }

    /// Starts a provider with TLS and a certificate of this authority.
    pub fn secure(
        authority: &Authority,
        answers: impl Fn(&str, &str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(authority.vouch_for("localhost", &[])), Arc::new(answers))
    }

    fn start(identity: Option<Identity>, answers: Arc<Answers>) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("cannot bind to loopback");
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
                // Errors mean that the client has disconnected.
                thread::spawn(move || match identity {
                    Some(identity) => serve(identity.accept(stream), &*answers, &seen),
                    None => serve(stream, &*answers, &seen),
                });
            }
        });
        Self { url, asked }
    }

    /// Returns the base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.asked().into_iter().map(|(head, _)| head).collect()
    }

    /// Returns the bodies of all requests.
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

/// Reads a head. Returns the path, the length of the body, and the whole head.
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
