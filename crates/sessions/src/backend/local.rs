//! Sessions in namespaces of this machine, without a daemon.
//!
//! Each session has one process outside, the [`supervisor`], which runs the sandbox like any other
//! run. The command inside is this binary as [`server`]. It starts commands on request, in its own
//! namespaces and under its own limits. Callers reach it through a socket in the session's
//! directory, which no sandbox can see.
//!
//! ```text
//! up/ID/lock   held by the supervisor while it lives; contains its pid and start time
//! up/ID/protocol version of the messages on the sockets; 1 if the file is missing
//! up/ID/exec   socket of the server inside, for commands
//! up/ID/attach socket of the log writer, for viewers
//! logs/ID.log  output of the agent and the supervisor, written outside the sandbox
//! ```

mod wire;
mod client;
mod log_writer;
pub mod server;
mod shape;
mod plan;
pub mod supervisor;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use sandbox_linux::pty::Size;
use sandbox_linux::{holder, socket};
use sandbox_policy::Host;
use sandbox_policy::config::Config;
use sandbox_protocol::multicall::SUPERVISE;

pub(super) use log_writer::without_returns;
pub use shape::{AgentCommand, shape};

use super::{
    Backend, BackendError, Capabilities, Connection, Exec, Observed, Planned, RecordLookup,
    Recorder, Stray,
};
use crate::data_dir::{DataDir, private_dir};
use crate::error::ControlError;
use crate::session::{BackendKind, Session, State, Wanted};
use crate::store::{Thing, ThingKind};

/// Name of the server's socket in a session's directory.
const SOCKET: &str = "exec";
/// Name of the viewers' socket.
const ATTACH: &str = "attach";
/// Name of the lock file.
const LOCK: &str = "lock";
/// Name of the file with the protocol version.
const PROTOCOL: &str = "protocol";
/// Identity of the supervisor in the database.
const SUPERVISOR: &str = "supervisor";
/// Maximum number of concurrent queries. Each needs a descriptor.
const AT_ONCE: usize = 64;
/// Maximum amount of log in an error message.
const TAIL: u64 = 4 << 10;

/// Returns a hash of everything that affects a sandbox, including origins.
pub fn policy(config: &Config) -> String {
    use sha2::{Digest, Sha256};
    sandbox_linux::hex::encode(&Sha256::digest(format!("{config:?}").as_bytes()))
}

/// Backend that runs sessions in namespaces of this machine.
#[derive(Debug, Clone)]
pub struct Local {
    data_dir: DataDir,
    host: Host,
}

impl Local {
    /// Creates the backend. The host's own binary becomes the supervisor.
    pub fn new(data_dir: DataDir, host: Host) -> Self {
        Self { data_dir, host }
    }

    /// Starts the supervisor unless it runs. The lock and the socket are created before it, so no
    /// caller waits for either.
    fn start(&self, session: &Session, dir: &Path) -> Result<(), BackendError> {
        let failed = |what: &'static str| move |error: io::Error| BackendError::new(what, error);
        let lock = dir.join(LOCK);
        let Some(lock) = holder::take(&lock).map_err(failed("cannot lock the session"))? else {
            return Ok(());
        };
        let listener =
            socket::listen(dir, SOCKET).map_err(failed("cannot create the session's socket"))?;
        std::fs::write(dir.join(PROTOCOL), wire::VERSION.to_string())
            .map_err(failed("cannot write the session's protocol version"))?;
        let log = self.log(session).map_err(failed("cannot open the session's log"))?;
        let mut command = sandbox_linux::process::command(&self.host.exe);
        command.arg(SUPERVISE).arg(session.id.as_str()).current_dir("/");
        // Our API token must not reach a sandbox.
        command.env_remove(crate::API_TOKEN);
        command.stdin(Stdio::from(listener)).stdout(Stdio::from(lock)).stderr(Stdio::from(log));
        let status = command.status().map_err(failed("cannot start the session's supervisor"))?;
        if status.success() {
            return Ok(());
        }
        Err(BackendError::plain(format!("the session's supervisor ended with {status}")))
    }

    fn log(&self, session: &Session) -> io::Result<File> {
        let path = self.data_dir.log(&session.id);
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }

    /// Waits until the server inside is ready.
    fn await_server(&self, session: &Session, dir: &Path, since: u64) -> Result<(), BackendError> {
        client::hello(dir, client::READY).map(drop).map_err(|error| {
            log_writer::wait_until_closed(&self.data_dir.log(&session.id));
            let tail = self.tail(session, since);
            let message = if tail.is_empty() {
                format!("session `{}` did not start: {error}", session.name)
            } else {
                format!("session `{}` did not start. Its log:\n{tail}", session.name)
            };
            BackendError::plain(message).code("not_started")
        })
    }

    /// Returns the state as seen from outside, and a connection on which the server was asked about
    /// the agent.
    fn query(&self, session: &Session) -> (Observed, Option<OwnedFd>) {
        let dir = self.data_dir.runtime(&session.id);
        let Some(holder) = holder::of(&dir.join(LOCK)) else {
            let up = session.wanted == Wanted::Up;
            return (Observed::only(if up { State::Killed } else { State::Stopped }), None);
        };
        let pid = holder.process();
        let handle = pid.map(|pid| format!("process {pid}"));
        (Observed { state: State::Running, handle, pid, agent: None }, client::call(&dir).ok())
    }

    fn log_length(&self, session: &Session) -> u64 {
        std::fs::metadata(self.data_dir.log(&session.id)).map_or(0, |log| log.len())
    }

    fn tail(&self, session: &Session, since: u64) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(self.data_dir.log(&session.id))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(since.min(length).max(length.saturating_sub(TAIL))))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).trim_end().to_owned()
    }
}

impl Backend for Local {
    fn kind(&self) -> BackendKind {
        BackendKind::Bwrap
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn plan(&self, config: Config) -> Result<Box<dyn Planned>, ControlError> {
        Ok(Box::new(plan::LocalPlan::of(&self.host, config)?))
    }

    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError> {
        let dir = self.data_dir.runtime(&session.id);
        let since = self.log_length(session);
        record.make(ThingKind::Directory, &dir.to_string_lossy(), || {
            private_dir(&dir)
                .map_err(|error| BackendError::new("cannot create the session's directory", error))
        })?;
        record.make(ThingKind::Process, SUPERVISOR, || self.start(session, &dir))?;
        Ok(self.await_server(session, &dir, since)?)
    }

    fn observe(&self, session: &Session) -> Result<Observed, BackendError> {
        let all = self.observe_all(&[session])?;
        all.into_iter().next().ok_or_else(|| BackendError::plain("the session was not observed"))
    }

    /// Queries all sessions before it waits for the first answer, so that several unresponsive ones cost one timeout.
    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        let mut seen = Vec::with_capacity(sessions.len());
        for some in sessions.chunks(AT_ONCE) {
            let end = Instant::now() + client::GLANCE;
            let asked: Vec<_> = some.iter().map(|session| self.query(session)).collect();
            let told = asked.into_iter().map(|(mut observed, asked)| {
                observed.agent = asked.and_then(|conn| client::hear(&conn, end).ok().flatten());
                observed
            });
            seen.extend(told);
        }
        Ok(seen)
    }

    fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, BackendError> {
        let dir = self.data_dir.runtime(&session.id);
        same_protocol(session, &dir)?;
        client::start(&dir, exec).map_err(|error| unreachable(session, error))
    }

    fn attach(&self, session: &Session, size: Size) -> Result<Connection, BackendError> {
        let dir = self.data_dir.runtime(&session.id);
        same_protocol(session, &dir)?;
        client::attach(&dir, size).map_err(|error| unreachable(session, error))
    }

    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError> {
        let dir = self.data_dir.runtime(&session.id);
        match thing.kind {
            ThingKind::Process => holder::end(&dir.join(LOCK))
                .map_err(|error| BackendError::new("cannot end the session's processes", error)),
            ThingKind::Directory => match std::fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(BackendError::new("cannot remove the session's directory", error))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn strays(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        let failed = |error: io::Error| BackendError::new("cannot list leftovers", error);
        let entries = match std::fs::read_dir(self.data_dir.path().join("up")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let stray = names.filter_map(|identity| {
            let session = identity.strip_suffix(".lock").unwrap_or(&identity).to_owned();
            (!record.session(&session)).then_some(Stray {
                backend: BackendKind::Bwrap,
                identity,
                session,
                thing: None,
            })
        });
        Ok(stray.collect())
    }

    fn remove_stray(&self, stray: &Stray) -> Result<(), BackendError> {
        let path = self.data_dir.path().join("up").join(&stray.identity);
        let gone = if path.is_dir() {
            holder::end(&path.join(LOCK)).and_then(|()| std::fs::remove_dir_all(&path))
        } else {
            std::fs::remove_file(&path)
        };
        match gone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BackendError::new("cannot remove a leftover", error))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a session whose supervisor uses another protocol version. Version 0.1.0 wrote no file, and used version 1.
fn same_protocol(session: &Session, dir: &Path) -> Result<(), BackendError> {
    let Ok(text) = std::fs::read_to_string(dir.join(PROTOCOL)) else { return Ok(()) };
    if text.trim() == wire::VERSION.to_string() {
        return Ok(());
    }
    let name = &session.name;
    let message = format!("session `{name}` was started by another version of agent-sandbox");
    let hint = format!("restart it: agent-sandbox down {name} && agent-sandbox up --name {name}");
    Err(BackendError::plain(message).code("other_version").hint(hint))
}

fn unreachable(session: &Session, error: io::Error) -> BackendError {
    let name = &session.name;
    BackendError::new(format!("session `{name}` does not respond"), error)
        .code("unreachable")
        .hint(format!("bring it up again: agent-sandbox up --name {name}"))
}
