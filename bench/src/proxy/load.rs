//! Load generator: a thread for each connection, which sends the next request after each response.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::figures;
use super::subject::Subject;
use super::upstream::{EVENTS, clock};

/// Results of a subject in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub per_second: f64,
    pub p50: f64,
    pub p99: f64,
    /// CPU time for each request in microseconds.
    pub cpu: f64,
    /// Connections to the server per request.
    pub opened: f64,
}

impl Figures {
    /// Returns the better value of each figure. Other load on the machine can only make them worse.
    pub(super) fn best(self, other: Self) -> Self {
        Self {
            per_second: self.per_second.max(other.per_second),
            p50: self.p50.min(other.p50),
            p99: self.p99.min(other.p99),
            cpu: self.cpu.min(other.cpu),
            opened: self.opened.min(other.opened),
        }
    }
}

/// Times of requests.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub times: Vec<Duration>,
}

/// Raises the limit of descriptors, because both ends of each connection are in this process.
pub(super) fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}

/// Measures small requests, sent one after the other on each connection.
pub(super) fn requests(subject: &Subject, connections: usize, span: Duration) -> Figures {
    under_load(subject, connections, span, "/v1/messages", |client| client.answer().map(drop))
}

/// Measures event streams, requested one after the other on each connection.
pub(super) fn streams(subject: &Subject, connections: usize, span: Duration) -> Figures {
    under_load(subject, connections, span, "/v1/messages?stream", |client| {
        client.until(b"0\r\n\r\n")
    })
}

fn under_load(
    subject: &Subject,
    connections: usize,
    span: Duration,
    path: &str,
    finish: impl Fn(&mut Client) -> io::Result<()> + Sync,
) -> Figures {
    let (cpu, opened, started) = (subject.cpu(), subject.opened(), Instant::now());
    let one = || -> io::Result<Vec<Duration>> {
        let mut client = Client::connect(subject, path)?;
        let mut times = Vec::new();
        while started.elapsed() < span {
            let before = Instant::now();
            client.ask()?;
            finish(&mut client)?;
            times.push(before.elapsed());
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()?.ok()).flatten().collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    figures(
        Counted { times },
        seconds,
        subject.cpu() - cpu,
        subject.opened().saturating_sub(opened),
    )
}

/// Measures the delay from the write of an event to its read, with pauses between events.
pub(super) fn delays(subject: &Subject, events: usize) -> Figures {
    let mut times = Vec::new();
    let started = Instant::now();
    while times.len() < events {
        let Ok(more) =
            Client::connect(subject, "/v1/messages?paced").and_then(|mut client| client.paced())
        else {
            break;
        };
        times.extend(more);
    }
    figures(Counted { times }, started.elapsed().as_secs_f64(), 0.0, 0)
}

/// Opens streams that do not end.
pub(super) fn hold(subject: &Subject, count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let mut client = Client::connect(subject, "/v1/messages?held")?;
            client.ask()?;
            client.until(b"\n\n\r\n")?;
            Ok(client.stream)
        })
        .collect()
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Client {
    fn connect(subject: &Subject, path: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(subject.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: api.example.com\r\nx-api-key: {}\r\nanthropic-version: 2023-06-01\r\n\
             content-type: application/json\r\nuser-agent: bench/1\r\naccept: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
            subject.token
        );
        Ok(Self { stream, request: request.into_bytes(), buffer: vec![0; 64 << 10], filled: 0 })
    }

    fn ask(&mut self) -> io::Result<()> {
        self.filled = 0;
        self.stream.write_all(&self.request)
    }

    fn read(&mut self) -> io::Result<usize> {
        if self.filled == self.buffer.len() {
            // Callers only need the end of the stream.
            self.buffer.copy_within(self.filled - 64.., 0);
            self.filled = 64;
        }
        let count = self.stream.read(&mut self.buffer[self.filled..])?;
        self.filled += count;
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
    }

    /// Reads a response up to the end of its JSON.
    fn answer(&mut self) -> io::Result<()> {
        loop {
            self.read()?;
            if self.buffer[..self.filled].ends_with(b"}}") {
                break;
            }
        }
        if self.buffer.starts_with(b"HTTP/1.1 200") {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn until(&mut self, end: &[u8]) -> io::Result<()> {
        while !self.buffer[..self.filled].ends_with(end) {
            self.read()?;
        }
        Ok(())
    }

    /// Returns the delay of each event in a stream.
    fn paced(&mut self) -> io::Result<Vec<Duration>> {
        self.ask()?;
        let mut late = Vec::with_capacity(EVENTS);
        loop {
            let count = self.read()?;
            let now = clock().elapsed();
            let new = &self.buffer[self.filled - count..self.filled];
            let text = String::from_utf8_lossy(new);
            let stamp =
                text.rsplit("data: ").next().and_then(|rest| rest.get(..20)?.parse::<u64>().ok());
            if let Some(stamp) = stamp {
                late.push(now.saturating_sub(Duration::from_nanos(stamp)));
            }
            if new.ends_with(b"0\r\n\r\n") {
                return Ok(late);
            }
        }
    }
}
