//! Server behind the proxy: it records its requests, and answers as the test decides.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::wire::header;

/// Received request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Returns how often a header occurs in the request.
    pub(crate) fn count(&self, name: &str) -> usize {
        let name = format!("{name}:");
        self.head.lines().filter(|line| line.to_ascii_lowercase().starts_with(&name)).count()
    }

    /// Returns the path of the request.
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// Reader and writer of a connection.
pub(crate) trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// Function that answers a request. Returns true to keep the connection.
pub(crate) type Answers = dyn Fn(&Asked, &mut dyn Wire) -> bool + Send + Sync;

/// Server on its own port.
pub(crate) struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that answers every request with its own head.
    pub(crate) fn echo() -> Self {
        Self::new(|asked, wire| {
            reply(wire, "200 OK", "content-type: text/plain\r\n", asked.head.as_bytes())
        })
    }

    /// Starts a server with a function for its answers.
    pub(crate) fn new(
        answers: impl Fn(&Asked, &mut dyn Wire) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::over(answers, |stream| Some(Box::new(stream)))
    }

    /// Starts a server that first prepares each connection.
    pub(crate) fn over(
        answers: impl Fn(&Asked, &mut dyn Wire) -> bool + Send + Sync + 'static,
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Wire>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) =
            (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<AtomicUsize>::default());
        let (answers, wrap): (Arc<Answers>, _) = (Arc::new(answers), Arc::new(wrap));
        let (all, count) = (seen.clone(), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let (all, answers, wrap) = (all.clone(), answers.clone(), wrap.clone());
                std::thread::spawn(move || {
                    if let Some(mut wire) = wrap(stream) {
                        converse(&mut *wire, &all, &*answers);
                    }
                });
            }
        });
        Self { address, seen, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the only request so far.
    #[track_caller]
    pub(crate) fn only(&self) -> Asked {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        seen.into_iter().next().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn converse(wire: &mut dyn Wire, seen: &Mutex<Vec<Asked>>, answers: &Answers) {
    while let Some(asked) = read(wire) {
        seen.lock().unwrap().push(asked.clone());
        if !answers(&asked, wire) {
            return;
        }
    }
}

/// Reads a request, as strictly as a test needs it.
pub(crate) fn read(wire: &mut dyn Wire) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(byte(wire)?);
    }
    let head = String::from_utf8(head).unwrap();
    let body = match (header(&head, "content-length"), header(&head, "transfer-encoding")) {
        (Some(length), None) => {
            let mut body = vec![0; length.parse().unwrap()];
            wire.read_exact(&mut body).ok()?;
            body
        }
        (None, Some(_)) => chunks(wire)?,
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => panic!("two lengths reached the server: {head}"),
    };
    Some(Asked { head, body })
}

fn byte(wire: &mut dyn Wire) -> Option<u8> {
    let mut byte = [0];
    wire.read_exact(&mut byte).ok()?;
    Some(byte[0])
}

fn chunks(wire: &mut dyn Wire) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(byte(wire)?);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        wire.read_exact(&mut chunk).ok()?;
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Some(body);
        }
    }
}

/// Returns a response with a length.
pub(crate) fn reply(wire: &mut dyn Wire, status: &str, headers: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    wire.write_all(&[head.as_bytes(), body].concat()).is_ok()
}

/// Returns the head of a chunked response.
pub(crate) fn begin_chunks(wire: &mut dyn Wire, headers: &str) -> bool {
    wire.write_all(
        format!("HTTP/1.1 200 OK\r\n{headers}transfer-encoding: chunked\r\n\r\n").as_bytes(),
    )
    .is_ok()
}

/// Returns one chunk. The empty one is the last.
pub(crate) fn chunk(wire: &mut dyn Wire, data: &[u8]) -> bool {
    let framed = [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
    wire.write_all(&framed).is_ok()
}
