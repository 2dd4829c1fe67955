//! HTTP as bytes: requests of a client, and the ends of responses.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::stage::PATIENCE;

/// Connection of a client.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes that were read and not consumed yet.
    rest: Vec<u8>,
}

/// Response, and true when it is complete.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    pub whole: bool,
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, rest: Vec::new() }
    }

    /// Returns true when the other side has not closed it and has sent nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]).map_err(|error| error.kind());
        self.stream.set_nonblocking(false).unwrap();
        peeked == Err(ErrorKind::WouldBlock)
    }

    /// Sends bytes. A closed connection is noticed when reading.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads until nothing arrives for a moment, then closes the sending side, and reads the rest.
    pub(crate) fn finish(&mut self) {
        let mut buffer = [0; 4096];
        self.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            self.rest.extend_from_slice(&buffer[..count]);
        }
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        while self.more() {}
    }

    /// Reads to the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        while self.more() {}
        String::from_utf8(std::mem::take(&mut self.rest)).unwrap()
    }

    /// Reads more. Returns false at the end, regular or not.
    pub(crate) fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.rest.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
            {
                false
            }
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    /// Reads until these bytes arrive, and returns everything including them.
    pub(crate) fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.rest.windows(end.len()).position(|window| window == end) {
                return Some(self.rest.drain(..at + end.len()).collect());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn exactly(&mut self, count: usize) -> (Vec<u8>, bool) {
        while self.rest.len() < count {
            if !self.more() {
                return (std::mem::take(&mut self.rest), false);
            }
        }
        (self.rest.drain(..count).collect(), true)
    }

    /// Reads the head of a response.
    pub(crate) fn head(&mut self) -> String {
        let head = self.until(b"\r\n\r\n").expect("the connection ended without an answer");
        String::from_utf8(head).unwrap()
    }

    /// Reads the next response on this connection.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let (body, whole) =
            match (header(&head, "content-length"), header(&head, "transfer-encoding")) {
                _ if status == 204 || status == 304 => (Vec::new(), true),
                (Some(length), _) => self.exactly(length.parse().unwrap()),
                (None, Some(_)) => self.chunks(),
                (None, None) => {
                    while self.more() {}
                    (std::mem::take(&mut self.rest), true)
                }
            };
        Answer { status, head, body, whole }
    }

    fn chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(chunk) = self.chunk() else { return (body, false) };
            if chunk.is_empty() {
                return (body, true);
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Reads all chunks, without keeping them, and returns their total length.
    pub(crate) fn chunks_length(&mut self) -> usize {
        let mut length = 0;
        loop {
            match self.chunk().expect("the last chunk").len() {
                0 => return length,
                more => length += more,
            }
        }
    }

    /// Reads one chunk. The last one is empty. Returns `None` when the connection ends before it.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until(b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
        let (mut data, whole) = self.exactly(size + 2);
        data.truncate(size);
        whole.then_some(data)
    }
}

impl Answer {
    /// Parses a response that was read to the end of its connection.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end..].to_vec(), whole: true }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the code of a refusal.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        assert!(
            json["error"]["message"].is_string() && json["error"]["hint"].is_string(),
            "{json}"
        );
        json["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// Returns a header of a head, which occurs at most once.
pub(crate) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

impl Connection {
    /// Returns the first chunk of a response.
    pub(crate) fn chunk_after_head(&mut self) {
        self.head();
        self.chunk().expect("a first chunk");
    }
}
