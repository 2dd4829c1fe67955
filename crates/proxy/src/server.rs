//! A proxy from its start to its end.

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

/// How a proxy is to run.
#[derive(Debug)]
pub struct Settings {
    /// Its sockets and files.
    pub dirs: ProxyDirs,
    /// Addresses where clients with tokens come in.
    pub listen: Vec<SocketAddr>,
    /// An address for the admin interface, and the token that it asks for.
    pub admin: Option<(SocketAddr, Token)>,
    /// Whether it ends when nobody needs it any more.
    pub on_demand: bool,
    /// Where keys come from that are not handed over.
    pub source: Arc<dyn Source>,
    /// Where trouble is told.
    pub say: fn(&str),
}

/// Why a proxy does not run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The directories of sockets and files cannot be used.
    #[error("cannot make the proxy's directories")]
    Dirs(#[source] io::Error),
    /// There is one.
    #[error("another proxy runs already")]
    Running,
    /// Sessions cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket or an address cannot be had.
    #[error("cannot listen at `{0}`")]
    Listen(String, #[source] io::Error),
    /// The log cannot be written.
    #[error("cannot open the log `{}`", .0.display())]
    Audit(PathBuf, #[source] io::Error),
    /// No threads, no timers.
    #[error("cannot start")]
    Start(#[source] io::Error),
}

impl Hint for ServerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Running => {
                Some("use it, or end it first; there is one proxy for each user".into())
            }
            Self::Store(error) => error.hint(),
            Self::Listen(..) => Some("choose another port, or end the program that has it".into()),
            Self::Dirs(_) | Self::Audit(..) => {
                Some("look at the owner and the mode of that directory".into())
            }
            Self::Start(_) => None,
        }
    }
}

/// Where a proxy that runs can be reached.
#[derive(Debug)]
pub struct Running {
    /// The addresses of its listeners, in the order in which they were asked for.
    pub listening: Vec<SocketAddr>,
    /// The address of its admin interface.
    pub admin: Option<SocketAddr>,
}

/// How long a proxy on demand waits for the first sandbox, and for the next one.
const FIRST: Duration = Duration::from_secs(20);
const NEXT: Duration = Duration::from_secs(2);
/// How long a sandbox may take to come back after a restart.
const ORPHANED: Duration = Duration::from_secs(60);
/// How often sessions are looked at, and what they used is written down.
const TICK: Duration = Duration::from_secs(1);

/// Runs a proxy until a signal ends it, or nobody needs it. `started` is called when it can be used.
pub fn run(settings: &Settings, started: impl FnOnce(&Running)) -> Result<(), ServerError> {
    settings.dirs.prepare().map_err(ServerError::Dirs)?;
    let _alone = lock(&settings.dirs)?;
    if settings.on_demand {
        // The keys of the terminal that it was started from are not for it.
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
        came: std::sync::atomic::AtomicBool::default(),
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
        listening.push(open_door(*address, &workers).await?);
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
    until_the_end(&proxy, settings.on_demand).await.map_err(ServerError::Start)?;
    // Nobody new comes in while what there was is written down.
    for socket in [settings.dirs.attach(), settings.dirs.admin()] {
        let _ = std::fs::remove_file(socket);
    }
    proxy.save();
    if let Some(telemetry) = &proxy.telemetry {
        let _ = telemetry.flush().await;
    }
    Ok(())
}

/// Sends spans once in a while. A collector that is not there is told of once, until it is there again.
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

/// As OpenTelemetry has it: five seconds, or as many milliseconds as its variable says.
fn spans_delay() -> Duration {
    let said = variable("OTEL_BSP_SCHEDULE_DELAY").and_then(|text| text.parse().ok());
    Duration::from_millis(said.unwrap_or(5000).max(10))
}

fn variable(name: &str) -> Option<String> {
    std::env::vars_os().find(|(key, _)| key == name)?.1.into_string().ok()
}

async fn open_door(address: SocketAddr, workers: &Arc<Workers>) -> Result<SocketAddr, ServerError> {
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

/// A socket for its owner alone. The lock is ours, so one that is there belongs to nobody any more.
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

/// The directory and the mode say so already; the kernel says it once more.
fn is_ours(stream: &tokio::net::UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

/// Until a signal comes, or nobody needs the proxy.
async fn until_the_end(proxy: &Proxy, on_demand: bool) -> io::Result<()> {
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

/// What is looked at once in a while.
struct Watch {
    started: Instant,
    /// When an idle proxy ends; `None` when it never does.
    ends: Option<Instant>,
    on_demand: bool,
    requests: u64,
}

impl Watch {
    fn new(on_demand: bool) -> Self {
        let started = Instant::now();
        Self { started, ends: on_demand.then(|| started + FIRST), on_demand, requests: 0 }
    }

    /// Ends sessions, writes down what was used. Returns whether the proxy is to end.
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

/// Held for as long as the proxy runs.
fn lock(dirs: &ProxyDirs) -> Result<LockFile, ServerError> {
    /// One that is about to end may still hold it.
    const PATIENCE: Duration = Duration::from_secs(3);
    let lock = LockFile::open(&dirs.lock()).map_err(ServerError::Dirs)?;
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if lock.try_exclusive().map_err(ServerError::Dirs)? {
            return Ok(lock);
        }
        // While it answers, it is not about to end.
        let answers = || crate::client::Client::new(dirs).health().is_ok();
        if std::time::Instant::now() >= deadline || answers() {
            return Err(ServerError::Running);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Keys are in this memory: it is neither dumped nor read by others. As many descriptors as allowed are for
/// connections.
fn guard_memory() {
    use rustix::process::{
        DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
    };
    // A kernel that refuses leaves the directory's mode and the user's id as the walls.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
}
