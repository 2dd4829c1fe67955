//! The proxy process: start-up, listeners, housekeeping and shutdown.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox_linux::lock::LockFile;
use sandbox_protocol::Hint;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::accept::{Endpoint, Workers};
use crate::admin::{self, Admission};
use crate::attach;
use crate::audit::Audit;
use crate::credential::Source;
use crate::data::Scope;
use crate::dirs::ProxyDirs;
use crate::listen::{self, Listener};
use crate::rendezvous::RendezvousSockets;
use crate::session::{Registry, StoreError};
use crate::telemetry::Telemetry;
use crate::token::Token;
use crate::{Proxy, metrics};

/// Settings of a proxy.
#[derive(Debug)]
pub struct Settings {
    /// Sockets and files.
    pub dirs: ProxyDirs,
    /// Addresses for clients with tokens.
    pub listen: Vec<SocketAddr>,
    /// Address of the admin interface, and its token.
    pub admin: Option<(SocketAddr, Token)>,
    /// True to exit when the proxy is unused.
    pub on_demand: bool,
    /// Resolver for keys that registrations refer to.
    pub source: Arc<dyn Source>,
    /// Prints errors.
    pub say: fn(&str),
}

/// Failure to run a proxy.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The directories are not usable.
    #[error("cannot create the proxy's directories")]
    Dirs(#[source] io::Error),
    /// Another proxy is running.
    #[error("another proxy is already running")]
    Running,
    /// The saved sessions cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A listener cannot be opened.
    #[error("cannot listen at `{0}`")]
    Listen(String, #[source] io::Error),
    /// The audit log cannot be opened.
    #[error("cannot open the log `{}`", .0.display())]
    Audit(PathBuf, #[source] io::Error),
    /// The runtime does not start.
    #[error("cannot start the proxy")]
    Start(#[source] io::Error),
}

impl Hint for ServerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Running => Some("use it or stop it first; each user has one proxy".into()),
            Self::Store(error) => error.hint(),
            Self::Listen(..) => {
                Some("choose another port, or stop the program that uses it".into())
            }
            Self::Dirs(_) | Self::Audit(..) => {
                Some("check the owner and mode of the directory".into())
            }
            Self::Start(_) => None,
        }
    }
}

/// Addresses of a running proxy.
#[derive(Debug)]
pub struct Running {
    /// Addresses of its listeners, in the order of the settings.
    pub listening: Vec<SocketAddr>,
    /// Address of its admin interface.
    pub admin: Option<SocketAddr>,
}

/// Time that an on-demand proxy waits for the first sandbox, and for the next one.
const FIRST: Duration = Duration::from_secs(20);
const NEXT: Duration = Duration::from_secs(2);
/// Time for a sandbox to attach again after a restart of the proxy.
const ORPHANED: Duration = Duration::from_secs(60);
/// Interval at which sessions are checked and usage is saved.
const TICK: Duration = Duration::from_secs(1);

/// Runs a proxy until a signal stops it or it is unused. Calls `started` when it is ready.
pub fn run(settings: &Settings, started: impl FnOnce(&Running)) -> Result<(), ServerError> {
    settings.dirs.prepare().map_err(ServerError::Dirs)?;
    let _alone = lock(&settings.dirs)?;
    if settings.on_demand {
        // Detach from the terminal, whose signals are not meant for the proxy.
        let _ = rustix::process::setsid();
    }
    guard_memory();
    let audit = settings.dirs.audit();
    let telemetry = Telemetry::of(variable).unwrap_or_else(|error| {
        (settings.say)(&sandbox_linux::error::chain(&error));
        None
    });
    let proxy = Arc::new(Proxy {
        registry: Registry::open(settings.dirs.sessions(), settings.source.clone())?,
        metrics: metrics::Metrics::default(),
        audit: Audit::open(&audit).map_err(|error| ServerError::Audit(audit, error))?,
        telemetry,
        attached: std::sync::Mutex::default(),
        newly_attached: std::sync::atomic::AtomicBool::default(),
        listening: std::sync::OnceLock::new(),
        say: settings.say,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServerError::Start)?;
    runtime.block_on(serve(settings, proxy, started))
}

async fn serve(
    settings: &Settings,
    proxy: Arc<Proxy>,
    started: impl FnOnce(&Running),
) -> Result<(), ServerError> {
    let workers = Arc::new(Workers::start(&proxy).map_err(ServerError::Start)?);
    let mut listening = Vec::new();
    for address in &settings.listen {
        listening.push(open_listener(*address, &workers).await?);
    }
    let rendezvous =
        RendezvousSockets::restore(proxy.clone(), workers.clone(), settings.dirs.rendezvous())?;
    let admin = match &settings.admin {
        Some((address, token)) => Some(open_admin(*address, token, &proxy, &rendezvous).await?),
        None => None,
    };
    serve_admin(&settings.dirs.admin(), proxy.clone(), rendezvous)?;
    serve_attach(&settings.dirs.attach(), proxy.clone(), workers)?;
    if proxy.telemetry.is_some() {
        tokio::spawn(send_spans(proxy.clone(), spans_delay()));
    }
    let _ = proxy.listening.set(listening.clone());
    started(&Running { listening, admin });
    run_until_stopped(&proxy, settings.on_demand).await.map_err(ServerError::Start)?;
    // Accept no more requests before the final save.
    for socket in [settings.dirs.attach(), settings.dirs.admin()] {
        let _ = std::fs::remove_file(socket);
    }
    proxy.save();
    if let Some(telemetry) = &proxy.telemetry {
        let _ = telemetry.flush().await;
    }
    Ok(())
}

/// Exports spans periodically. Prints a failure once, until an export succeeds again.
async fn send_spans(proxy: Arc<Proxy>, delay: Duration) {
    let mut told = false;
    while let Some(telemetry) = &proxy.telemetry {
        sleep(delay).await;
        match telemetry.flush().await {
            Ok(()) => told = false,
            Err(error) if !std::mem::replace(&mut told, true) => {
                (proxy.say)(&sandbox_linux::error::chain(&error));
            }
            Err(_) => {}
        }
    }
}

/// Returns OpenTelemetry's export interval: `OTEL_BSP_SCHEDULE_DELAY` in milliseconds, or five seconds.
fn spans_delay() -> Duration {
    let said = variable("OTEL_BSP_SCHEDULE_DELAY").and_then(|text| text.parse().ok());
    Duration::from_millis(said.unwrap_or(5000).max(10))
}

fn variable(name: &str) -> Option<String> {
    std::env::vars_os().find(|(key, _)| key == name)?.1.into_string().ok()
}

async fn open_listener(
    address: SocketAddr,
    workers: &Arc<Workers>,
) -> Result<SocketAddr, ServerError> {
    let failed = |error| ServerError::Listen(address.to_string(), error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tokio::spawn(listen::serve(
        Listener::Tcp(listener),
        Endpoint::new(Scope::Open),
        workers.clone(),
    ));
    Ok(bound)
}

async fn open_admin(
    address: SocketAddr,
    token: &Token,
    proxy: &Arc<Proxy>,
    rendezvous: &Arc<RendezvousSockets>,
) -> Result<SocketAddr, ServerError> {
    let failed = |error| ServerError::Listen(address.to_string(), error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let (proxy, rendezvous) = (proxy.clone(), rendezvous.clone());
    let admission = Admission::Bearer(Arc::new(token.hash()));
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let admission = admission.clone();
                    drop(tokio::spawn(admin::serve(
                        stream,
                        proxy.clone(),
                        rendezvous.clone(),
                        admission,
                    )));
                }
                Err(_) => sleep(TICK).await,
            }
        }
    });
    Ok(bound)
}

fn serve_admin(
    path: &Path,
    proxy: Arc<Proxy>,
    rendezvous: Arc<RendezvousSockets>,
) -> Result<(), ServerError> {
    let listener = private_socket(path)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => {
                    let rendezvous = rendezvous.clone();
                    tokio::spawn(admin::serve(stream, proxy.clone(), rendezvous, Admission::Owner));
                }
                Ok(_) => {}
                Err(_) => sleep(TICK).await,
            }
        }
    });
    Ok(())
}

fn serve_attach(path: &Path, proxy: Arc<Proxy>, workers: Arc<Workers>) -> Result<(), ServerError> {
    let listener = private_socket(path)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => {
                    tokio::spawn(attach::serve(stream, proxy.clone(), workers.clone()));
                }
                Ok(_) => {}
                Err(_) => sleep(TICK).await,
            }
        }
    });
    Ok(())
}

/// Opens a socket with mode 0600. The lock is held, so an existing socket is a leftover.
fn private_socket(path: &Path) -> Result<UnixListener, ServerError> {
    let failed = |error| ServerError::Listen(path.display().to_string(), error);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Checks the peer's uid, in addition to the modes of directory and socket.
fn is_ours(stream: &tokio::net::UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

/// Waits for a signal, or until an on-demand proxy is unused.
async fn run_until_stopped(proxy: &Proxy, on_demand: bool) -> io::Result<()> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut watch = Watch::new(on_demand);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = sleep(TICK) => if watch.tick(proxy) { return Ok(()) },
        }
    }
}

/// Periodic housekeeping.
struct Watch {
    started: Instant,
    /// Time at which an unused proxy exits.
    ends: Option<Instant>,
    on_demand: bool,
    requests: u64,
}

impl Watch {
    fn new(on_demand: bool) -> Self {
        let started = Instant::now();
        Self { started, ends: on_demand.then(|| started + FIRST), on_demand, requests: 0 }
    }

    /// Ends expired sessions and saves usage. Returns true when the proxy should exit.
    fn tick(&mut self, proxy: &Proxy) -> bool {
        let mut gone = proxy.registry.revoke_expired();
        if self.started.elapsed() > ORPHANED {
            gone += proxy.registry.revoke_orphaned();
        }
        let requests = proxy.metrics.ended();
        if gone > 0 || std::mem::replace(&mut self.requests, requests) != requests {
            proxy.save();
        }
        if self.on_demand && !proxy.was_idle() {
            self.ends = Some(Instant::now() + NEXT);
        }
        self.ends.is_some_and(|end| end <= Instant::now())
    }
}

/// Takes the lock of the running proxy.
fn lock(dirs: &ProxyDirs) -> Result<LockFile, ServerError> {
    /// Wait for a proxy that is about to exit.
    const PATIENCE: Duration = Duration::from_secs(3);
    let lock = LockFile::open(&dirs.lock()).map_err(ServerError::Dirs)?;
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if lock.try_exclusive().map_err(ServerError::Dirs)? {
            return Ok(lock);
        }
        // A proxy that responds is not about to exit.
        let answers = || crate::client::Client::new(dirs).health().is_ok();
        if std::time::Instant::now() >= deadline || answers() {
            return Err(ServerError::Running);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Protects the keys in memory from core dumps and ptrace (`PR_SET_DUMPABLE(2const)`). Raises the limit of descriptors,
/// which are needed for connections.
fn guard_memory() {
    use rustix::process::{
        DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
    };
    // On failure, directory modes and uids remain as protection.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}
