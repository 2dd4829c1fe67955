//! Who carries sessions out. A backend that cannot meet a want refuses; it never weakens it.

pub mod local;
#[cfg(feature = "docker")]
pub mod docker;

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use sandbox_core::Host;
use sandbox_core::config::Config;
use sandbox_linux::process::{Used, used_below};
use sandbox_linux::pty::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;
pub use crate::error::BackendError;
use crate::error::ControlError;
use crate::session::{BackendKind, Session, Settings, State};
use crate::store::{Store, Thing, ThingKind};

/// Who carries sessions out.
///
/// Nothing here is asynchronous. Every call may be made again after a crash at any point of an
/// earlier one: what is there already is taken as it is, and what is gone already is no error.
pub trait Backend: Send {
    /// Which one it is.
    fn kind(&self) -> BackendKind;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Plans a session of a configuration. Nothing is created.
    fn plan(&self, config: Config) -> Result<Box<dyn Planned>, ControlError>;

    /// Makes what a session needs and waits until it serves. Each thing goes through `record` first.
    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError>;

    /// What became of a session that was made.
    fn observe(&self, session: &Session) -> Result<Observed, BackendError>;

    /// The same of many at once, for whoever lists them: what costs time for each is left out, or done for all together.
    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        sessions.iter().map(|session| self.observe(session)).collect()
    }

    /// Returns what a session uses at this moment; nothing where that is not known.
    fn used(&self, session: &Session) -> Result<Option<Used>, BackendError> {
        Ok(Some(self.observe(session)?.pid.map(used_below).unwrap_or_default()))
    }

    /// Joins a session that serves with what serves it from outside, such as the proxy. Also after
    /// one of the two was started anew.
    fn bind(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError> {
        let _ = (session, record);
        Ok(())
    }

    /// Starts a command in a session.
    fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, BackendError>;

    /// Joins the terminal of a session's agent. What comes back ends with the agent; when it is
    /// dropped before, the agent goes on.
    fn attach(&self, session: &Session, size: Size) -> Result<Connection, BackendError> {
        let _ = (session, size);
        Err(BackendError::unsupported(self.kind().as_str(), "join the agent's terminal"))
    }

    /// Passes on what a session's programs say, where the backend keeps that itself; else `false`:
    /// it is in the session's own log. `each` says whether to go on, and is asked now and then with
    /// nothing.
    fn logs(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, BackendError> {
        let _ = (session, how, each);
        Ok(false)
    }

    /// Holds everything in a session still.
    fn suspend(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "hold a session still"))
    }

    /// Lets it go on.
    fn resume(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "hold a session still"))
    }

    /// Holds everything in a session still until what is returned is dropped, or this process ends. The
    /// caller must be single-threaded.
    fn hold(&self, session: &Session) -> Result<Box<dyn Any>, BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind().as_str(), "hold a session still"))
    }

    /// Keeps what a session's programs said, where that would go with what was made for it. What goes wrong is a
    /// warning: a session can be taken down without its log.
    fn keep_log(&self, session: &Session) {
        let _ = session;
    }

    /// Returns what went wrong without keeping anything from being done, once.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes one thing away that was made, or was about to be. The service calls this for the last
    /// one first.
    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError>;

    /// Returns what lets a session's own key in on the host, if it has one.
    fn authorized(&self, session: &Session) -> Option<Authorized> {
        let _ = session;
        None
    }

    /// Takes away what outlives a session's end, when the session itself goes.
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

    /// Lists what carries this program's mark and is not on record. The record is to be asked after a thing was
    /// found: a session, and each thing of it, is on record before it exists.
    fn strays(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        let _ = record;
        Ok(Vec::new())
    }

    /// Takes one of those away.
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

/// Returns all backends. A new one is a module, and a line here.
pub fn all(data_dir: &DataDir, host: &Host) -> Vec<Box<dyn Backend>> {
    vec![
        Box::new(local::Local::new(data_dir.clone(), host.clone())),
        #[cfg(feature = "docker")]
        Box::new(docker::Docker::new(data_dir.clone(), host.clone())),
    ]
}

/// Line of `authorized_keys` that lets a session's key in on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorized {
    /// The user on the host.
    pub user: String,
    /// The line of `authorized_keys`.
    pub line: String,
    /// True when the key was made for this session, and ends with it.
    pub own: bool,
    /// The file that it was put into.
    pub place: Option<PathBuf>,
}

/// How much of a log is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listen {
    /// Only so many lines at the end.
    pub tail: Option<usize>,
    /// Go on until the session ends.
    pub follow: bool,
}

/// The record, as a backend asks it about what it found.
pub trait RecordLookup {
    /// Returns true when a session of this id is on record.
    fn session(&self, id: &str) -> bool;

    /// Returns true when this thing of a session is on record, or a command works on the session right now.
    fn thing(&self, id: &str, kind: ThingKind, identity: &str) -> bool;
}

/// Something of ours that no record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Whose it is.
    pub backend: BackendKind,
    /// By what it is found: a path, a name, an id.
    pub identity: String,
    /// The id of the session that it was made for.
    pub session: String,
    /// The thing that it would be on record, where the session itself may still be.
    pub thing: Option<(ThingKind, String)>,
}

/// What a backend can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// Run an image.
    pub images: bool,
    /// Limit memory, processors and processes.
    pub resources: bool,
    /// Hold a session still.
    pub suspend: bool,
    /// Outlive the machine's next boot.
    pub survives_reboot: bool,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// In one word.
    pub state: State,
    /// The process or container behind it.
    pub handle: Option<String>,
    /// The process on this machine, if it is one.
    pub pid: Option<i32>,
    /// What became of the agent, if there is one.
    pub agent: Option<Agent>,
}

impl Observed {
    /// Nothing more than a state.
    pub fn only(state: State) -> Self {
        Self { state, handle: None, pid: None, agent: None }
    }
}

/// What became of a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agent {
    /// `"running"` or `"ended"`.
    pub state: AgentState,
    /// True while it runs.
    pub running: bool,
    /// The code that it ended with, where that is known; 128 and more by a signal.
    pub code: Option<u8>,
    /// How often it was started again after it had ended.
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

/// Puts things on record while they are made.
pub struct Recorder<'s> {
    store: &'s Store,
    session: &'s Session,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(store: &'s Store, session: &'s Session) -> Self {
        Self { store, session }
    }

    /// Makes a thing: on record as planned before, and as made after.
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

/// A command for a session.
#[derive(Debug)]
pub struct Exec {
    /// The command and its arguments.
    pub argv: Vec<OsString>,
    /// Variables on top of the session's own.
    pub env: Vec<(OsString, OsString)>,
    /// Where, inside; the session's own directory when left out.
    pub cwd: Option<PathBuf>,
    /// A terminal of its own, of this size. Then all three streams are piped, and there is no
    /// stream for errors.
    pub terminal: Option<Size>,
    /// Its input.
    pub stdin: Stream,
    /// Its output.
    pub stdout: Stream,
    /// Its errors.
    pub stderr: Stream,
}

/// Where a command reads or writes.
#[derive(Debug)]
pub enum Stream {
    /// Here. What is given goes into the sandbox: a pipe or the null device, never a file or a
    /// terminal of the host's.
    Given(OwnedFd),
    /// In a pipe whose other end the caller gets.
    Piped,
}

/// A command that runs in a session. When this is dropped before its end, the command is ended.
pub struct Connection {
    /// Where its input is written; nothing if that was given.
    pub stdin: Option<OwnedFd>,
    /// Where its output is read.
    pub stdout: Option<OwnedFd>,
    /// Where its errors are read.
    pub stderr: Option<OwnedFd>,
    /// How it is told that its input has ended.
    pub end_of_input: EndOfInput,
    /// The command itself.
    pub process: Box<dyn Process>,
}

/// How a command is told that its input has ended.
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

/// A command that runs in a session.
pub trait Process: Send {
    /// Can be read when [`Process::poll`] may have something to say.
    fn awaited(&self) -> BorrowedFd<'_>;

    /// How it ended, if it has.
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

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The code; 128 and more by a signal.
    pub code: u8,
    /// Why there was no command to end.
    pub why: Option<String>,
}
