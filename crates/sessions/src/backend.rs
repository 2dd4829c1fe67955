//! Backends carry sessions. One that cannot do what a configuration asks for refuses; it never does less.
//!
//! A new backend is a folder here, a line in [`all`], and its word in the configuration:
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

/// Carrier of sessions: namespaces of this machine, or containers.
///
/// Nothing here is asynchronous. Every call may be repeated after a crash at any point of an earlier one:
/// things that exist already are used, and things that are gone already are not an error.
pub trait Backend: Send {
    /// Returns the kind of backend.
    fn kind(&self) -> BackendKind;

    /// Returns what it can do.
    fn capabilities(&self) -> Capabilities;

    /// Plans a session of a configuration. Nothing is created.
    fn plan(&self, config: Config) -> Result<Box<dyn Planned>, ControlError>;

    /// Creates what a session needs, and waits until it serves. Each thing is recorded before it is created.
    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError>;

    /// Returns the state of a session that was created.
    fn observe(&self, session: &Session) -> Result<Observed, BackendError>;

    /// Batch version of [`Self::observe`], for listings. May omit fields that need a call per session.
    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        sessions.iter().map(|session| self.observe(session)).collect()
    }

    /// Returns the current usage of a session, or `None` where it is not known.
    fn used(&self, session: &Session) -> Result<Option<Used>, BackendError> {
        Ok(Some(self.observe(session)?.pid.map(used_below).unwrap_or_default()))
    }

    /// Connects a session to the processes that serve it from outside, such as the proxy. Called again after
    /// either side was restarted.
    fn bind(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError> {
        let _ = (session, record);
        Ok(())
    }

    /// Starts a command in a session.
    fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, BackendError>;

    /// Attaches to the terminal of a session's agent. The connection ends with the agent. When it is dropped
    /// before, the agent keeps running.
    fn attach(&self, session: &Session, size: Size) -> Result<Connection, BackendError> {
        let _ = (session, size);
        Err(BackendError::unsupported(self.kind().as_str(), "join the agent's terminal"))
    }

    /// Passes the output of a session's programs to `each`, where the backend keeps it. Returns `false` where it
    /// is in the session's own log. `each` returns whether to continue, and is called now and then with nothing.
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

    /// Pauses every process of a session until the returned guard is dropped, or this process ends. The
    /// caller must be single-threaded.
    fn pause(&self, session: &Session) -> Result<Box<dyn Any>, BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "suspend a session"))
    }

    /// Saves the output of a session's programs, where it would be lost when the session is taken down. A failure is
    /// a warning: a session can be taken down without its log.
    fn keep_log(&self, session: &Session) {
        let _ = session;
    }

    /// Takes the warnings of the calls so far.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Removes one thing that was created, or was about to be. The service removes the last one first.
    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError>;

    /// Returns the line that lets a session's own key in on the host, if it has one.
    fn authorized(&self, session: &Session) -> Option<Authorized> {
        let _ = session;
        None
    }

    /// Removes what outlives `down`, when the session itself is removed.
    fn forget(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Ok(())
    }

    /// Removes what a killed command may have left without a record, such as a container that the engine finished
    /// after its removal. Called at the end of every walk back; does nothing when the backend is unreachable.
    fn sweep(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Ok(())
    }

    /// Lists things that carry this program's mark and are not on record. Look a thing up in the record after it
    /// was found: sessions and their things are recorded before they exist.
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

/// Session as its backend would make it.
pub trait Planned {
    /// Returns a hash of everything that decides about the session.
    fn policy(&self) -> String;

    /// Returns what decides about the session, to be compared with a later request.
    fn settings(&self) -> serde_json::Result<Settings>;

    /// Returns true when changes go into a layer.
    fn keeps_changes(&self) -> bool;

    /// Returns what the user should know before it is made.
    fn notices(&self) -> Vec<Notice>;

    /// Returns the plan as text.
    fn show(&self, form: Form) -> serde_json::Result<String>;
}

/// Line of `authorized_keys` that lets a session's key in on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorized {
    /// The user on the host.
    pub user: String,
    /// The line of `authorized_keys`.
    pub line: String,
    /// Whether the key was made for this session, and ends with it.
    pub own: bool,
    /// The file that it was put into.
    pub place: Option<PathBuf>,
}

/// Remark about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something to know.
    Note(String),
    /// A right beyond the least, with its reason.
    Granted(String),
}

/// Form in which a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
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

/// Part of a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listen {
    /// Number of lines at its end; all of them when left out.
    pub tail: Option<usize>,
    /// Follow until the session ends.
    pub follow: bool,
}

/// Lookup in the record, for things that a backend found.
pub trait RecordLookup {
    /// Returns true when a session of this id is on record.
    fn session(&self, id: &str) -> bool;

    /// Returns true when this thing of a session is on record, or a command works on the session right now.
    fn thing(&self, id: &str, kind: ThingKind, identity: &str) -> bool;
}

/// Thing that carries this program's mark and is not on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The backend that found it.
    pub backend: BackendKind,
    /// Path, name or id by which it is found again.
    pub identity: String,
    /// Id of the session that it was created for.
    pub session: String,
    /// Kind and identity that it would have on record, where the session may still exist.
    pub thing: Option<(ThingKind, String)>,
}

/// Abilities of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// Run an image.
    pub images: bool,
    /// Limit memory, processors and processes.
    pub resources: bool,
    /// Suspend a session.
    pub suspend: bool,
    /// Sessions survive a reboot of the machine.
    pub survives_reboot: bool,
    /// Keep what programs say while the session is up. Otherwise it is in the session's own log.
    pub logs: bool,
}

/// State of a session, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The state.
    pub state: State,
    /// The process or container behind it.
    pub handle: Option<String>,
    /// The process on this machine, if it is one.
    pub pid: Option<i32>,
    /// State of the agent, if there is one.
    pub agent: Option<Agent>,
}

impl Observed {
    /// A state without details.
    pub fn only(state: State) -> Self {
        Self { state, handle: None, pid: None, agent: None }
    }
}

/// State of a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agent {
    /// `"running"` or `"ended"`.
    pub state: AgentState,
    /// True while it runs.
    pub running: bool,
    /// Its exit code, where it is known; 128 and more by a signal.
    pub code: Option<u8>,
    /// Number of restarts.
    pub restarts: u64,
}

/// An agent's state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// It runs.
    Running,
    /// It ended.
    Ended,
}

impl Agent {
    /// One that runs.
    pub fn running() -> Self {
        Self { state: AgentState::Running, running: true, code: None, restarts: 0 }
    }

    /// One that ended.
    pub fn ended(code: Option<u8>) -> Self {
        Self { state: AgentState::Ended, running: false, code, restarts: 0 }
    }
}

/// Records things while they are created.
pub struct Recorder<'s> {
    store: &'s Store,
    session: &'s Session,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(store: &'s Store, session: &'s Session) -> Self {
        Self { store, session }
    }

    /// Creates a thing: recorded as planned before, and as made after.
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
    /// The command and its arguments.
    pub argv: Vec<OsString>,
    /// Variables on top of the session's own.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory inside; the session's own when left out.
    pub cwd: Option<PathBuf>,
    /// Size of a new terminal. With one, all streams are piped, and there is no stream for errors.
    pub terminal: Option<Size>,
    /// Its input.
    pub stdin: Stream,
    /// Its output.
    pub stdout: Stream,
    /// Its errors.
    pub stderr: Stream,
}

/// Stream that a command reads or writes.
#[derive(Debug)]
pub enum Stream {
    /// This descriptor, which is passed into the sandbox: a pipe or the null device, never a file or a
    /// terminal of the host.
    Given(OwnedFd),
    /// A pipe, whose other end the caller gets.
    Piped,
}

/// Running command of a session. Dropping it ends the command.
pub struct Connection {
    /// Write end of its input, unless it was given.
    pub stdin: Option<OwnedFd>,
    /// Read end of its output.
    pub stdout: Option<OwnedFd>,
    /// Read end of its errors.
    pub stderr: Option<OwnedFd>,
    /// End of its input.
    pub end_of_input: EndOfInput,
    /// The command itself.
    pub process: Box<dyn Process>,
}

/// Form in which a command's input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOfInput {
    /// [`Connection::stdin`] is closed.
    Closed,
    /// [`Connection::stdin`] is a terminal, which has a key for it.
    Key,
}

impl EndOfInput {
    /// Returns what is written at the end, after this byte as the last one. In the middle of a line the key only ends
    /// the line: termios(3) on VEOF.
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
    /// Returns a descriptor that is readable when [`Process::poll`] may have news.
    fn awaited(&self) -> BorrowedFd<'_>;

    /// Returns how it ended, if it has.
    fn poll(&mut self) -> io::Result<Option<Ended>>;

    /// Returns true once after it stopped, as by ^Z on its terminal: `SIGCONT` continues it.
    fn stopped(&mut self) -> bool {
        false
    }

    /// Sends a signal to it and what it started.
    fn signal(&mut self, signal: i32) -> io::Result<()>;

    /// Changes the size of its terminal.
    fn resize(&mut self, size: Size) -> io::Result<()>;
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The code; 128 and more by a signal.
    pub code: u8,
    /// Reason why the command did not start.
    pub why: Option<String>,
}
