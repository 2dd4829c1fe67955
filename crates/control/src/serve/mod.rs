//! Sessions over HTTP: for the session's owner, on a socket that nobody else can reach, or with a token.
//!
//! Every call is carried out by the same [`Service`] that the command line uses; what has to be known about
//! configurations comes from an [`Operator`].

pub mod wire;
mod openapi;
mod listen;
mod access;
mod answer;
mod routes;
mod files;
mod logs;
mod exec;
mod websocket;
mod metrics;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::ControlError;
use crate::service::Service;
use crate::session::{NewSession, Session};
use access::Access;
use metrics::Metrics;
pub use openapi::document;
use wire::{Create, Problem};

/// The variable that holds the token for callers by TCP.
pub const TOKEN: &str = "AGENT_SANDBOX_API_TOKEN";

/// Who knows what a configuration means.
pub trait Operator: Send + Sync {
    /// The sessions, opened for one call.
    fn service(&self) -> Result<Service, ControlError>;

    /// What is asked for as a session, or why it cannot be had.
    fn prepare(&self, create: &Create) -> Result<NewSession, Problem>;

    /// The same for a session that there is, by what its configuration says now.
    fn prepare_again(&self, session: &Session) -> Result<NewSession, Problem>;

    /// Takes away what a session that was removed has kept apart.
    fn forget(&self, session: &Session) -> Result<(), Problem>;
}

/// How to serve.
pub struct Settings {
    /// The socket, for its owner alone.
    pub socket: PathBuf,
    /// An address beside it, and the token that it asks for.
    pub tcp: Option<(SocketAddr, String)>,
    /// How many sessions there may be on record for one more to be made.
    pub sessions: usize,
}

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Somebody else does.
    #[error("somebody serves at `{}` already", .0.display())]
    Taken(PathBuf),
    /// A socket or an address cannot be had.
    #[error("cannot listen at `{0}`")]
    Listen(String, #[source] io::Error),
    /// No threads, no timers.
    #[error("cannot start")]
    Start(#[source] io::Error),
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Taken(_) => Some("use it, end it, or pass another `--socket`".into()),
            Self::Listen(..) => Some("pass another `--socket` or `--listen`".into()),
            Self::Start(_) => None,
        }
    }
}

/// What every call can reach.
pub(crate) struct Shared {
    operator: Arc<dyn Operator>,
    metrics: Metrics,
    /// Commands and streams at a time.
    room: Arc<tokio::sync::Semaphore>,
    /// Sessions on record.
    sessions: usize,
}

/// How many commands and streams there may be at a time.
const MOST: usize = 256;
/// How many calls may be carried out at a time; the others wait.
const CALLS: usize = 64;

/// Serves until a signal ends it. Sessions go on. `started` is called when it can be used.
pub fn run(
    settings: Settings,
    operator: Arc<dyn Operator>,
    started: impl FnOnce(Option<SocketAddr>),
) -> Result<(), ServeError> {
    let room = Arc::new(tokio::sync::Semaphore::new(MOST));
    let sessions = settings.sessions;
    let shared = Arc::new(Shared { operator, metrics: Metrics::default(), room, sessions });
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(CALLS).build();
    let runtime = runtime.map_err(ServeError::Start)?;
    let served = runtime.block_on(async {
        let unix = bind(&settings.socket)?;
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
    // Whoever comes next makes its own.
    let _ = std::fs::remove_file(&settings.socket);
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

/// A socket of a mode that lets nobody in but its owner, from the first moment on.
fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |error| ServeError::Listen(path.display().to_string(), error);
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(ServeError::Taken(path.to_path_buf()));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound.map_err(failed)
}
