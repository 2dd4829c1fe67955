//! Session API over HTTP: for the owner on a private Unix socket, or over TCP with a token.
//!
//! Every call is carried out by the same [`Service`](crate::Service) that the command line uses.

pub mod wire;
mod openapi;
mod operator;
mod listen;
mod socket;
mod access;
mod answer;
mod extract;
mod files;
mod review;
mod logs;
mod websocket;
mod exec;
mod metrics;
mod routes;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_policy::Host;
use sandbox_protocol::Hint;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::data_dir::DataDir;
use access::Access;
use metrics::Metrics;
use operator::Operator;
pub use operator::{Log, LogEntry};
pub use routes::document;

/// Settings of a server.
pub struct Settings {
    /// The machine and its user.
    pub host: Host,
    /// Data directory of sessions.
    pub data_dir: DataDir,
    /// Log of the server.
    pub log: Log,
    /// Unix socket, accessible to its owner only.
    pub socket: PathBuf,
    /// Additional TCP address, and the token that it requires.
    pub tcp: Option<(SocketAddr, String)>,
    /// Maximum number of sessions. When it is reached, no session can be created.
    pub sessions: usize,
    /// Directories of programs, as `PATH` lists them. Git is looked up there.
    pub search_path: OsString,
}

/// Error that prevents the server from starting.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another process listens on the socket.
    #[error("another process is already listening on `{}`", .0.display())]
    Taken(PathBuf),
    /// The socket or the address cannot be bound.
    #[error("cannot listen on `{0}`")]
    Listen(String, #[source] io::Error),
    /// The runtime cannot be created.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
}

impl Hint for ServeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Taken(_) => {
                Some("use that server, stop it, or pass a different `--socket`".into())
            }
            Self::Listen(..) => Some("pass a different `--socket` or `--listen`".into()),
            Self::Start(_) => None,
        }
    }
}

/// State shared by all calls.
pub(crate) struct Shared {
    operator: Arc<Operator>,
    metrics: Metrics,
    /// Limit of concurrent commands and streams.
    streams: Arc<tokio::sync::Semaphore>,
    /// Maximum number of sessions.
    sessions: usize,
    /// Directories of programs.
    search_path: OsString,
    /// Lock that serialises reviews.
    reviews: Arc<tokio::sync::Mutex<()>>,
}

/// Maximum number of concurrent commands and streams.
const MOST: usize = 256;
/// Maximum number of concurrent calls. Further calls wait.
const CALLS: usize = 64;

/// Serves until a signal arrives. Sessions keep running. Calls `started` once the server is ready.
pub fn run(settings: Settings, started: impl FnOnce(Option<SocketAddr>)) -> Result<(), ServeError> {
    let streams = Arc::new(tokio::sync::Semaphore::new(MOST));
    let Settings { host, data_dir, log, .. } = settings;
    let shared = Arc::new(Shared {
        operator: Arc::new(Operator { host, data_dir, log }),
        metrics: Metrics::default(),
        streams,
        sessions: settings.sessions,
        search_path: settings.search_path,
        reviews: Arc::default(),
    });
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(CALLS).build();
    let runtime = runtime.map_err(ServeError::Start)?;
    let mut bound = None;
    let served = runtime.block_on(async {
        let (unix, identity) = socket::bind(&settings.socket)?;
        bound = Some(identity);
        let tcp = match settings.tcp {
            Some((address, token)) => {
                let failed = |error| ServeError::Listen(address.to_string(), error);
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                Some((listener, bound, token))
            }
            None => None,
        };
        // Before `started`: its caller may announce the server, and a signal may follow at once.
        let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [Ok(term), Ok(int)] = signals else {
            return Err(ServeError::Start(io::Error::other("cannot handle signals")));
        };
        started(tcp.as_ref().map(|(_, bound, _)| *bound));
        both(unix, tcp, &shared, [term, int]).await;
        Ok(())
    });
    // Do not wait for running calls. Their commands end with their connections.
    runtime.shutdown_background();
    if let Some(bound) = bound {
        // Keep a socket that another process has bound at this path meanwhile.
        socket::remove(&settings.socket, bound);
    }
    served
}

async fn both(
    unix: UnixListener,
    tcp: Option<(TcpListener, SocketAddr, String)>,
    shared: &Arc<Shared>,
    [mut term, mut int]: [Signal; 2],
) {
    let local = listen::serve(unix, routes::all(Arc::clone(shared), Access::Owner));
    let remote = async {
        match tcp {
            Some((listener, bound, token)) => {
                let access = Access::Token { token, port: bound.port() };
                listen::serve(listener, routes::all(Arc::clone(shared), access)).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = local => {},
        () = remote => {},
        _ = term.recv() => {},
        _ = int.recv() => {},
    }
}
