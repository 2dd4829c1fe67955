//! Who carries sessions out. A backend that cannot meet a want refuses; it never weakens it.

pub mod bwrap;
pub mod docker;

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use sandbox_linux::pty::Size;
use serde::Serialize;
use thiserror::Error;

use crate::error::ControlError;
use crate::session::{BackendKind, Session, State};
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

    /// Makes what a session needs and waits until it serves. Each thing goes through `record` first.
    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError>;

    /// What became of a session that was made.
    fn observe(&self, session: &Session) -> Result<Observed, BackendError>;

    /// The same of many at once, for whoever lists them: what costs time for each is left out, or done for all together.
    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        sessions.iter().map(|session| self.observe(session)).collect()
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
        Err(BackendError::unsupported(self.kind(), "join the agent's terminal"))
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
        Err(BackendError::unsupported(self.kind(), "hold a session still"))
    }

    /// Lets it go on.
    fn resume(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind(), "hold a session still"))
    }

    /// Holds everything in a session still until what is returned is dropped, or this process ends. The
    /// caller must be single-threaded.
    fn hold(&self, session: &Session) -> Result<Box<dyn Any>, BackendError> {
        let _ = session;
        Err(BackendError::unsupported(self.kind(), "hold a session still"))
    }

    /// Takes one thing away that was made, or was about to be. The service calls this for the last
    /// one first.
    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError>;

    /// Takes away what outlives a session's end, when the session itself goes.
    fn forget(&self, session: &Session) -> Result<(), BackendError> {
        let _ = session;
        Ok(())
    }

    /// What carries this program's mark and belongs to no session on record. `is_known` is to be
    /// asked after a thing was found: a session is on record before anything of it exists.
    fn strays(&self, is_known: &dyn Fn(&str) -> bool) -> Result<Vec<Stray>, BackendError> {
        let _ = is_known;
        Ok(Vec::new())
    }

    /// Takes one of those away.
    fn remove_stray(&self, stray: &Stray) -> Result<(), BackendError> {
        let _ = stray;
        Ok(())
    }
}

/// How much of a log is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listen {
    /// Only so many lines at the end.
    pub tail: Option<usize>,
    /// Go on until the session ends.
    pub follow: bool,
}

/// Something of ours that no record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Whose it is.
    pub backend: BackendKind,
    /// By what it is found: a path, a name, an id.
    pub identity: String,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Agent {
    /// It runs.
    Running,
    /// It ended with this code; 128 and more by a signal.
    Ended {
        /// The code.
        code: u8,
    },
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
    /// The command itself.
    pub process: Box<dyn Process>,
}

/// A command that runs in a session.
pub trait Process: Send {
    /// Can be read when [`Process::poll`] may have something to say.
    fn awaited(&self) -> BorrowedFd<'_>;

    /// How it ended, if it has.
    fn poll(&mut self) -> io::Result<Option<Ended>>;

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

/// A backend that could not do what was asked.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct BackendError {
    /// One word for programs.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Why.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BackendError {
    /// Something failed.
    pub fn new(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: Some(source.into()) }
    }

    /// A file of ours could not be made or changed.
    pub(crate) fn file(
        message: impl Into<String>,
        path: &std::path::Path,
        error: io::Error,
    ) -> Self {
        let hint = crate::error::full(&error, path);
        let code = if hint.is_some() { "storage" } else { "backend" };
        Self { code, hint, ..Self::new(message, error) }
    }

    /// Something is not as it must be.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: None }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a word for programs.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    fn unsupported(kind: BackendKind, what: &str) -> Self {
        Self::plain(format!("the backend `{kind}` cannot {what}")).code("unsupported")
    }
}
