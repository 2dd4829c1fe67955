//! Workers: each has a thread, a runtime of that one thread, and connections of its own, so that an
//! exchange never changes threads and never waits for another's lock.

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
use crate::egress::{SOCKS, is_for_exit};
use crate::limits;
use crate::upstream::Pool;

/// A connection that was let in.
pub(crate) struct Accepted {
    pub stream: Socket,
    pub admission: Admission,
}

/// Its socket, not yet on any worker.
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// The threads that serve connections.
#[derive(Debug)]
pub(crate) struct Workers {
    each: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    queue: mpsc::UnboundedSender<Accepted>,
    load: Arc<AtomicUsize>,
}

/// More do not help: a proxy waits for others most of the time.
const MOST: usize = 4;
/// How often idle connections to servers are looked at.
const SWEEP: Duration = Duration::from_secs(10);

impl Workers {
    /// Starts them.
    pub(crate) fn start(proxy: &Arc<Proxy>) -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let each =
            (0..count).map(|number| Worker::start(number, proxy)).collect::<io::Result<_>>()?;
        Ok(Self { each })
    }

    /// Gives a connection to the worker that has the fewest.
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
            sandbox_linux::memory::stay();
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
            // A client that goes away in the middle is its own business.
            let _ = serve(stream, admission, shared).await;
            load.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Serves one connection, by what the client begins with.
async fn serve(stream: Socket, admission: Admission, shared: Arc<Shared>) -> io::Result<()> {
    let spoken = match stream {
        Socket::Tcp(stream) => {
            stream.set_nodelay(true)?;
            let stream = TcpStream::from_std(stream)?;
            let peer = stream.peer_addr().ok().map(|peer| peer.port());
            let ends = Ends { here: stream.local_addr().ok(), peer };
            match tokio::time::timeout(limits::HEAD_TIMEOUT, first_bytes(&stream)).await?? {
                First::Http2 => speak(Version::HTTP_2, stream, admission, shared, ends),
                First::Socks if admission.endpoint().exit().is_some() => {
                    return Box::pin(socks(stream, &admission)).await;
                }
                First::Socks | First::Other => {
                    speak(Version::HTTP_11, stream, admission, shared, ends)
                }
                First::Nothing => return Ok(()),
            }
        }
        Socket::Unix(stream) => {
            let stream = UnixStream::from_std(stream)?;
            tokio::time::timeout(limits::HEAD_TIMEOUT, stream.readable()).await??;
            speak(Version::HTTP_11, stream, admission, shared, Ends::default())
        }
    };
    spoken.await.map_err(io::Error::other)
}

/// A client that speaks SOCKS wants out, whatever it is.
async fn socks(stream: TcpStream, admission: &Admission) -> io::Result<()> {
    match admission.endpoint().exit() {
        Some(exit) => exit.socks(stream).await,
        None => Ok(()),
    }
}

/// Both ends of a client's connection, where it is one of TCP.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    /// The address that the client connected to.
    here: Option<SocketAddr>,
    /// The port that the client has.
    peer: Option<u16>,
}

/// Answers a request, whatever happens: as egress where it is for another server, else as a request to a provider.
async fn answer(
    shared: Arc<Shared>,
    endpoint: Arc<Endpoint>,
    ends: Ends,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Some(exit) = endpoint.exit().filter(|_| is_for_exit(&request, ends.here)) {
        return Ok(exit.http(request, ends.peer).await);
    }
    Ok(data::answer(&shared, endpoint.scope(), request).await)
}

/// What a client begins with.
enum First {
    Http2,
    Socks,
    Other,
    Nothing,
}

/// How HTTP/2 begins when both sides know that they speak it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Looks at the first bytes and leaves them where they are. Until there are some, a connection costs
/// next to nothing.
async fn first_bytes(stream: &TcpStream) -> io::Result<First> {
    /// The rest of a preface that came in pieces is on its way.
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

/// Speaks one version of HTTP on a connection. Each has a box, so that a connection holds only what its version needs.
fn speak(
    version: Version,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    admission: Admission,
    shared: Arc<Shared>,
    ends: Ends,
) -> Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> {
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request: Request<Incoming>| {
        // In a box, which is gone when the answer begins; hyper keeps room for what is not.
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
