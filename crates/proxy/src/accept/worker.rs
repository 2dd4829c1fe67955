//! Worker threads for connections. Each worker has a single-threaded runtime and its own connections, so an exchange
//! never changes threads and never contends for a lock.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

use super::endpoint::{Admission, Endpoint};
use crate::Proxy;
use crate::data::{self, Body, Shared};
use crate::egress::{SOCKS, is_for_egress};
use crate::limits;
use crate::upstream::Pool;

/// An admitted connection.
pub(crate) struct Accepted {
    pub stream: Socket,
    pub admission: Admission,
}

/// Socket of an admitted connection, not yet registered with a runtime.
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// Threads that serve connections.
#[derive(Debug)]
pub(crate) struct Workers {
    each: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    queue: mpsc::UnboundedSender<Accepted>,
    load: Arc<AtomicUsize>,
}

/// Upper limit of workers. The proxy mostly waits for I/O, so more threads do not help.
const MOST: usize = 4;
/// Interval between checks for expired idle connections to servers.
const SWEEP: Duration = Duration::from_secs(10);

impl Workers {
    /// Starts the worker threads.
    pub(crate) fn start(proxy: &Arc<Proxy>) -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let each =
            (0..count).map(|number| Worker::start(number, proxy)).collect::<io::Result<_>>()?;
        Ok(Self { each })
    }

    /// Gives a connection to the least loaded worker.
    pub(crate) fn serve(&self, accepted: Accepted) {
        let idlest = self.each.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        if let Some(worker) = idlest {
            worker.load.fetch_add(1, Ordering::Relaxed);
            // A worker ends only with the process.
            let _ = worker.queue.send(accepted);
        }
    }
}

impl Worker {
    fn start(number: usize, proxy: &Arc<Proxy>) -> io::Result<Self> {
        let (queue, accepted) = mpsc::unbounded_channel();
        let load = Arc::new(AtomicUsize::new(0));
        let pool = Arc::new(Pool::new(proxy.metrics.connections.clone()));
        let shared = Arc::new(Shared { proxy: proxy.clone(), pool });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let of_worker = load.clone();
        std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
            sandbox_linux::memory::cache_per_thread();
            runtime.block_on(run(accepted, shared, of_worker));
        })?;
        Ok(Self { queue, load })
    }
}

async fn run(
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    shared: Arc<Shared>,
    load: Arc<AtomicUsize>,
) {
    let pool = shared.pool.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP).await;
            pool.sweep();
        }
    });
    while let Some(Accepted { stream, admission }) = accepted.recv().await {
        let (shared, load) = (shared.clone(), load.clone());
        tokio::spawn(async move {
            // A client may disconnect at any time.
            let _ = serve(stream, admission, shared).await;
            load.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Serves one connection in the protocol that its first bytes indicate.
async fn serve(stream: Socket, admission: Admission, shared: Arc<Shared>) -> io::Result<()> {
    let served = match stream {
        Socket::Tcp(stream) => {
            stream.set_nodelay(true)?;
            let stream = TcpStream::from_std(stream)?;
            let peer = stream.peer_addr().ok().map(|peer| peer.port());
            let ends = Ends { here: stream.local_addr().ok(), peer };
            match tokio::time::timeout(limits::HEAD_TIMEOUT, first_bytes(&stream)).await?? {
                First::Http2 => serve_http(Version::HTTP_2, stream, admission, shared, ends),
                First::Socks if admission.endpoint().egress().is_some() => {
                    return Box::pin(socks(stream, &admission)).await;
                }
                First::Socks | First::Other => {
                    serve_http(Version::HTTP_11, stream, admission, shared, ends)
                }
                First::Nothing => return Ok(()),
            }
        }
        Socket::Unix(stream) => {
            let stream = UnixStream::from_std(stream)?;
            tokio::time::timeout(limits::HEAD_TIMEOUT, stream.readable()).await??;
            serve_http(Version::HTTP_11, stream, admission, shared, Ends::default())
        }
    };
    served.await.map_err(io::Error::other)
}

/// Serves a SOCKS client. SOCKS is only used for egress.
async fn socks(stream: TcpStream, admission: &Admission) -> io::Result<()> {
    match admission.endpoint().egress() {
        Some(egress) => egress.socks(stream).await,
        None => Ok(()),
    }
}

/// Both ends of a client's TCP connection. Empty for Unix sockets.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    /// Address that the client connected to.
    here: Option<SocketAddr>,
    /// Port that the client connected from.
    peer: Option<u16>,
}

/// Answers a request. One for another server goes to the egress, all others to a provider.
async fn answer(
    shared: Arc<Shared>,
    endpoint: Arc<Endpoint>,
    ends: Ends,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Some(egress) = endpoint.egress().filter(|_| is_for_egress(&request, ends.here)) {
        return Ok(egress.http(request, ends.peer).await);
    }
    Ok(data::answer(&shared, endpoint.scope(), request).await)
}

/// Protocol that a client's first bytes indicate.
enum First {
    Http2,
    Socks,
    Other,
    Nothing,
}

/// Connection preface of HTTP/2 with prior knowledge (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Peeks at the first bytes. Until they arrive, a connection uses almost no memory.
async fn first_bytes(stream: &TcpStream) -> io::Result<First> {
    /// Wait for the rest of a preface that arrived in pieces.
    const PATIENCE: Duration = Duration::from_millis(5);
    let mut seen = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await?;
        match &seen[..count] {
            [] => return Ok(First::Nothing),
            PREFACE => return Ok(First::Http2),
            [SOCKS, ..] => return Ok(First::Socks),
            begun if PREFACE.starts_with(begun) => tokio::time::sleep(PATIENCE).await,
            _ => return Ok(First::Other),
        }
    }
}

/// Serves a connection in one version of HTTP. Each future is boxed, so a connection holds only what its version needs.
fn serve_http(
    version: Version,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    admission: Admission,
    shared: Arc<Shared>,
    ends: Ends,
) -> Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> {
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request: Request<Incoming>| {
        // Boxed and freed when the answer begins. Otherwise hyper reserves its size for the whole connection.
        Box::pin(answer(shared.clone(), admission.endpoint().clone(), ends, request))
    });
    if version == Version::HTTP_2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::STREAMS)
            .max_header_list_size(limits::HEADERS_AS_U32)
            .keep_alive_interval(limits::HEAD_TIMEOUT)
            .serve_connection(stream, service);
        return Box::pin(connection);
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIMEOUT)
        .max_header_size(limits::HEADERS)
        .max_buf_size(limits::BUFFER)
        .serve_connection(stream, service)
        .with_upgrades();
    Box::pin(connection)
}
