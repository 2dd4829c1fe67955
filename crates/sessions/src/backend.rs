//! Backends, which run sessions. A backend refuses a configuration that it cannot carry out completely.
//!
//! To add a backend: a module here, a line in [`all`], and its word in the configuration,
//! [`BackendKind`].

pub mod local;
#[cfg(feature = "docker")]
pub mod docker;

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use sandbox_linux::process::{Used, used_below};
use sandbox_linux::pty::Size;
use sandbox_policy::Host;
use sandbox_policy::config::Config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;
pub use crate::error::BackendError;
use crate::error::ControlError;
use crate::session::{BackendKind, Session, Settings, State};
use crate::store::{Store, Thing, ThingKind};

/// Runner of sessions: namespaces of this machine, or containers.
///
/// All calls are synchronous. Every call may be repeated after a crash at any point of an earlier one: existing
/// resources are reused, and missing ones are not an error.
pub trait Backend: Send {
    /// Returns the kind of backend.
    fn kind(&self) -> BackendKind;

    /// Returns its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Plans a session of a configuration. Creates nothing.
    fn plan(&self, config: Config) -> Result<Box<dyn Planned>, ControlError>;

    /// Creates the resources of a session, and waits until it is ready. Each is recorded before it is created.
    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError>;

    /// Returns the state of a session that was created.
    fn observe(&self, session: &Session) -> Result<Observed, BackendError>;

    /// Batch version of [`Self::observe`], for listings. May omit fields that need a call per session.
    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        sessions.iter().map(|session| self.observe(session)).collect()
    }

    /// Returns the current usage of a session, or `None` if it is unknown.
    fn used(&self, session: &Session) -> Result<Option<Used>, BackendError> {
        Ok(Some(self.observe(session)?.pid.map(used_below).unwrap_or_default()))
    }

    /// Connects a session to the processes that serve it from outside, such as the proxy. Called again after either
    /// side was restarted.
    fn bind(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError> {
        let _ = (session, record);
        Ok(())
    }

    /// Starts a command in a session.
    fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, BackendError>;

    /// Attaches to the terminal of a session's agent. The connection ends with the agent. Dropping it earlier leaves
    /// the agent running.
    fn attach(&self, session: &Session, size: Size) -> Result<Connection, BackendError> {
        let _ = (session, size);
        Err(BackendError::unsupported(self.kind().as_str(), "attach to the agent's terminal"))
    }

    /// Passes the output of a session's programs to `each` until that returns false, if the backend stores it. Returns
    /// false if the session's own log has it. Calls `each` with an empty slice from time to time.
    fn logs(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, BackendError> {
        let _ = (session, how, each);
        Ok(false)
    }

    /// Pauses every process of a session.
    fn suspend(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "suspend a session"))
    }

    /// Resumes a suspended session.
    fn resume(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "suspend a session"))
    }

    /// Pauses every process of a session until the returned guard is dropped or this process ends. The caller must be
    /// single-threaded.
    fn pause(&self, session: &Session) -> Result<Box<dyn Any>, BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "pause a session"))
    }

    /// Saves the output of a session's programs if taking it down would lose it. A failure is only a warning, so a
    /// session can always be taken down.
    fn keep_log(&self, session: &Session) {
        let _ = session;
    }

    /// Takes the warnings of earlier calls.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Removes one resource that was created, or was about to be. The service removes the latest one first.
    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError>;

    /// Returns the `authorized_keys` line of a session's key, if it has one.
    fn authorized(&self, session: &Session) -> Option<Authorized> {
        let _ = session;
        None
    }

    /// Removes what outlives `down`. Called when the session is removed.
    fn forget(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Ok(())
    }

    /// Removes what a killed command may have left without a record, such as a container that the engine finished
    /// creating later. Called after every removal of resources. Does nothing if the backend is unreachable.
    fn sweep(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Ok(())
    }

    /// Lists resources that carry our labels and are not recorded. Checks the record after listing, because resources
    /// are recorded before they exist.
    fn strays(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        let _ = record;
        Ok(Vec::new())
    }

    /// Removes a stray.
    fn remove_stray(&self, stray: &Stray) -> Result<(), BackendError> {
        let _ = stray;
        Ok(())
    }
}

/// Plan of a session by its backend.
pub trait Planned {
    /// Returns a hash of everything that affects the session.
    fn policy(&self) -> String;

    /// Returns the settings that affect the session, for comparison with a later request.
    fn settings(&self) -> serde_json::Result<Settings>;

    /// Returns true when changes go to a layer.
    fn keeps_changes(&self) -> bool;

    /// Returns notices for the user, before anything is created.
    fn notices(&self) -> Vec<Notice>;

    /// Returns the plan as text.
    fn show(&self, form: Form) -> serde_json::Result<String>;
}

/// Authorization of a session's SSH key on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorized {
    /// User on the host.
    pub user: String,
    /// Line of `authorized_keys`.
    pub line: String,
    /// True when the key was created for this session, and is removed with it.
    pub own: bool,
    /// File that the line was added to.
    pub place: Option<PathBuf>,
}

/// Notice about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Information.
    Note(String),
    /// A permission beyond the minimum, with its reason.
    Granted(String),
}

/// Output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Human-readable.
    Text,
    /// JSON.
    Json,
}

/// Returns all backends.
pub fn all(data_dir: &DataDir, host: &Host) -> Vec<Box<dyn Backend>> {
    vec![
        Box::new(local::Local::new(data_dir.clone(), host.clone())),
        #[cfg(feature = "docker")]
        Box::new(docker::Docker::new(data_dir.clone(), host.clone())),
    ]
}

/// Range of a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listen {
    /// Number of lines at its end; all of them by default.
    pub tail: Option<usize>,
    /// Follow the log until the session ends.
    pub follow: bool,
}

/// Lookup of recorded sessions and resources, for backends that search for strays.
pub trait RecordLookup {
    /// Returns true when a session with this id is recorded.
    fn session(&self, id: &str) -> bool;

    /// Returns true when this resource is recorded, or a command is changing its session.
    fn thing(&self, id: &str, kind: ThingKind, identity: &str) -> bool;
}

/// Resource that carries our labels and is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Backend that found it.
    pub backend: BackendKind,
    /// Path, name or id.
    pub identity: String,
    /// Id of the session that it was created for.
    pub session: String,
    /// Kind and identity that it would be recorded with, if its session may still exist.
    pub thing: Option<(ThingKind, String)>,
}

/// Capabilities of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent capability")]
pub struct Capabilities {
    /// Runs an image.
    pub images: bool,
    /// Limits memory, CPU time and processes.
    pub resources: bool,
    /// Suspends sessions.
    pub suspend: bool,
    /// Sessions survive a reboot of the machine.
    pub survives_reboot: bool,
    /// Stores the output of programs while the session is up. Otherwise the session's own log has
    /// it.
    pub logs: bool,
}

/// Observed state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// State.
    pub state: State,
    /// Process or container.
    pub handle: Option<String>,
    /// Process on this machine, if there is one.
    pub pid: Option<i32>,
    /// State of the agent, if there is one.
    pub agent: Option<AgentStatus>,
}

impl Observed {
    /// Creates a state without details.
    pub fn only(state: State) -> Self {
        Self { state, handle: None, pid: None, agent: None }
    }
}

/// State of a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub struct AgentStatus {
    /// `"running"` or `"ended"`.
    pub state: AgentState,
    /// True while it runs.
    pub running: bool,
    /// Exit code, if known; 128 plus the number of a signal that ended it.
    pub code: Option<u8>,
    /// Number of restarts.
    pub restarts: u64,
}

/// State of an agent in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// Running.
    Running,
    /// Ended.
    Ended,
}

impl AgentStatus {
    /// Returns a running agent.
    pub fn running() -> Self {
        Self { state: AgentState::Running, running: true, code: None, restarts: 0 }
    }

    /// Returns an agent that ended.
    pub fn ended(code: Option<u8>) -> Self {
        Self { state: AgentState::Ended, running: false, code, restarts: 0 }
    }
}

/// Recorder of resources while they are created.
pub struct Recorder<'s> {
    store: &'s Store,
    session: &'s Session,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(store: &'s Store, session: &'s Session) -> Self {
        Self { store, session }
    }

    /// Creates a resource. It is recorded as planned before, and as made afterwards.
    pub fn make<T>(
        &mut self,
        kind: ThingKind,
        identity: &str,
        make: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, ControlError> {
        self.store.plan(&self.session.id, kind, identity)?;
        let thing = make()?;
        self.store.made(&self.session.id, kind, identity)?;
        Ok(thing)
    }
}

/// Command to start in a session.
#[derive(Debug)]
pub struct Exec {
    /// Command and arguments.
    pub argv: Vec<OsString>,
    /// Environment variables in addition to the session's.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory inside; the session's by default.
    pub cwd: Option<PathBuf>,
    /// Size of a new terminal. With a terminal, all streams are piped, and there is no separate
    /// stderr.
    pub terminal: Option<Size>,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// Standard stream of a command.
#[derive(Debug)]
pub enum Stream {
    /// This descriptor, which is passed into the sandbox. It must be a pipe or `/dev/null`, never a file or a terminal
    /// of the host.
    Given(OwnedFd),
    /// A pipe. The caller gets the other end.
    Piped,
}

/// Running command of a session. Dropping it ends the command.
pub struct Connection {
    /// Write end of stdin, unless it was given.
    pub stdin: Option<OwnedFd>,
    /// Read end of stdout.
    pub stdout: Option<OwnedFd>,
    /// Read end of stderr.
    pub stderr: Option<OwnedFd>,
    /// How to signal the end of input.
    pub end_of_input: EndOfInput,
    /// The command.
    pub process: Box<dyn Process>,
}

/// Signal for the end of a command's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOfInput {
    /// Close [`Connection::stdin`].
    Closed,
    /// Write the EOF character: [`Connection::stdin`] is a terminal.
    Key,
}

impl EndOfInput {
    /// Returns the text that signals the end of input, given the last byte before it. In the middle of a line, VEOF
    /// only flushes the line, termios(3), so it is sent twice.
    pub fn text(self, last: Option<u8>) -> &'static [u8] {
        const KEYS: &[u8] = &[0x04, 0x04];
        match self {
            Self::Closed => &[],
            Self::Key if last.is_some_and(|last| !matches!(last, b'\n' | b'\r')) => KEYS,
            Self::Key => &KEYS[..1],
        }
    }
}

/// Running command of a session.
pub trait Process: Send {
    /// Returns a descriptor that is readable when [`Process::poll`] may return something new.
    fn awaited(&self) -> BorrowedFd<'_>;

    /// Returns the end of the command, if it has ended.
    fn poll(&mut self) -> io::Result<Option<Ended>>;

    /// Returns true once after the command stopped, as by ^Z. `SIGCONT` continues it.
    fn stopped(&mut self) -> bool {
        false
    }

    /// Sends a signal to the command and its children.
    fn signal(&mut self, signal: i32) -> io::Result<()>;

    /// Resizes its terminal.
    fn resize(&mut self, size: Size) -> io::Result<()>;
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code; 128 plus the number of a signal.
    pub code: u8,
    /// Reason if the command did not start.
    pub why: Option<String>,
}
