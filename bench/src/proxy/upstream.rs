//! Server behind all subjects. It has a thread for each connection and sends each response in one write.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const JSON: &str = r#"{"id":"msg_01","type":"message","role":"assistant","content":[{"type":"text","text":"Hello there."}],"usage":{"input_tokens":12,"output_tokens":6}}"#;
const EVENT: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#;
/// Number of events in a stream.
pub(super) const EVENTS: usize = 200;

/// Handle of the server.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    pub address: SocketAddr,
    opened: Arc<AtomicUsize>,
}

impl Upstream {
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let upstream = Self { address: listener.local_addr()?, opened: Arc::default() };
        let opened = upstream.opened.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                opened.fetch_add(1, Ordering::Relaxed);
                let serve = move || drop(serve(stream));
                drop(std::thread::Builder::new().stack_size(64 << 10).spawn(serve));
            }
        });
        Ok(upstream)
    }

    /// Returns the number of accepted connections.
    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

/// Returns the origin of the times in events. Server and client share it, because both are in this process.
pub(super) fn clock() -> &'static Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let json = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{JSON}",
        JSON.len()
    );
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..count]);
        // Requests end with the body `{}` and are not pipelined.
        if !head.ends_with(b"\r\n\r\n{}") {
            continue;
        }
        let asked = String::from_utf8_lossy(&head).into_owned();
        head.clear();
        match asked.split(' ').nth(1) {
            Some("/v1/messages?stream") => stream_events(&mut stream, Duration::ZERO)?,
            Some("/v1/messages?paced") => stream_events(&mut stream, Duration::from_millis(2))?,
            Some("/v1/messages?held") => hold(&mut stream)?,
            _ => stream.write_all(json.as_bytes())?,
        }
    }
}

const STREAM: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn stream_events(stream: &mut TcpStream, pace: Duration) -> io::Result<()> {
    stream.write_all(STREAM)?;
    for _ in 0..EVENTS {
        if !pace.is_zero() {
            std::thread::sleep(pace);
        }
        event(stream)?;
    }
    stream.write_all(b"0\r\n\r\n")
}

/// Sends an event with the current time, in one write.
fn event(stream: &mut TcpStream) -> io::Result<()> {
    let event = format!("data: {:020} {EVENT}\n\n", clock().elapsed().as_nanos());
    stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
}

fn hold(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(STREAM)?;
    event(stream)?;
    // Wait until the client disconnects.
    let _ = stream.read(&mut [0])?;
    Err(io::ErrorKind::ConnectionAborted.into())
}
