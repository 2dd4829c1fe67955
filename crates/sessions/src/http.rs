//! Sessions over HTTP: for the session's owner, on a socket that nobody else can reach, or with a token.
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
pub use operator::{Entry, Log};
pub use routes::document;

pub use crate::API_TOKEN as TOKEN;

/// How to serve.
pub struct Settings {
    /// The machine and its user.
    pub host: Host,
    /// Where sessions are kept.
    pub data_dir: DataDir,
    /// The server's own log.
    pub log: Log,
    /// The socket, for its owner alone.
    pub socket: PathBuf,
    /// An address beside it, and the token that it asks for.
    pub tcp: Option<(SocketAddr, String)>,
    /// How many sessions there may be on record for one more to be made.
    pub sessions: usize,
    /// Directories of programs, as `PATH` lists them. Git is looked up there.
    pub search_path: OsString,
}

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another process serves there.
    #[error("another process serves at `{}` already", .0.display())]
    Taken(PathBuf),
    /// A socket or an address cannot be had.
    #[error("cannot listen at `{0}`")]
    Listen(String, #[source] io::Error),
    /// No threads, no timers.
    #[error("cannot start")]
    Start(#[source] io::Error),
}

impl Hint for ServeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Taken(_) => Some("use it, end it, or pass another `--socket`".into()),
            Self::Listen(..) => Some("pass another `--socket` or `--listen`".into()),
            Self::Start(_) => None,
        }
    }
}

/// What every call can reach.
pub(crate) struct Shared {
    operator: Arc<Operator>,
    metrics: Metrics,
    /// Commands and streams at a time.
    room: Arc<tokio::sync::Semaphore>,
    /// Sessions on record.
    sessions: usize,
    /// Directories of programs.
    search_path: OsString,
    /// Held by the review that is going on.
    reviews: Arc<tokio::sync::Mutex<()>>,
}

/// How many commands and streams there may be at a time.
const MOST: usize = 256;
/// How many calls may be carried out at a time; the others wait.
const CALLS: usize = 64;

/// Serves until a signal ends it. Sessions go on. `started` is called when it can be used.
pub fn run(settings: Settings, started: impl FnOnce(Option<SocketAddr>)) -> Result<(), ServeError> {
    let room = Arc::new(tokio::sync::Semaphore::new(MOST));
    let Settings { host, data_dir, log, .. } = settings;
    let shared = Arc::new(Shared {
        operator: Arc::new(Operator { host, data_dir, log }),
        metrics: Metrics::default(),
        room,
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
        // Before anybody hears that it serves: whoever does may end it.
        let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [Ok(term), Ok(int)] = signals else {
            return Err(ServeError::Start(io::Error::other("no signals")));
        };
        started(tcp.as_ref().map(|(_, bound, _)| *bound));
        both(unix, tcp, &shared, [term, int]).await;
        Ok(())
    });
    // A command that somebody waits for ends with its connection; nobody is waited for here.
    runtime.shutdown_background();
    if let Some(bound) = bound {
        // A socket that another process has put in its place meanwhile stays.
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
