//! Supervisor of a session: detaches from its caller and launches the sandbox with this binary as the command, which
//! starts other commands on request.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use sandbox_launch::{Events, Job, LaunchError, launch};
use sandbox_linux::pty::{self, Size};
use sandbox_linux::{fd, holder, process, signal, socket};
use sandbox_policy::Host;
use sandbox_policy::config::{self, ConfigError, Request};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::log_writer::{self, Logs};
use super::{policy, server, shape};
use crate::data_dir::DataDir;
use crate::error::{ControlError, ShapeError};
use crate::session::{Session, SessionId};
use crate::store::Store;

/// Error of a supervisor.
#[derive(Debug, Error)]
pub enum SuperviseError {
    /// The session's request cannot be decoded.
    #[error(transparent)]
    Request(#[from] serde_json::Error),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The local backend does not support the configuration.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The configuration changed since the session was planned.
    #[error("the configuration changed since the session was planned")]
    Changed,
    /// The sandbox did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl Hint for SuperviseError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Request(_) => None,
            Self::Config(error) => error.hint(),
            Self::Shape(error) => error.hint(),
            Self::Changed => Some("run the command again".into()),
            Self::Launch(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(error) => error.exit_code(),
            Self::Launch(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}

/// Launches a session's sandbox and waits until it ends.
pub fn run(host: &Host, session: &Session, events: &mut dyn Events) -> Result<u8, SuperviseError> {
    let started = sandbox_linux::clock::wall_exactly();
    let request = Request::recall(&session.request)?;
    let (config, agent) = shape(config::load(host, &request)?)?;
    // Only what was decided is carried out.
    if policy(&config) != session.policy {
        return Err(SuperviseError::Changed);
    }
    let job = Job {
        agent_at: server::WORDS,
        session: session.cow.then(|| session.name.as_str().to_owned()),
        started,
        ..Job::new(config, server::command(&agent))
    };
    Ok(launch(host, job, events)?.code)
}

/// Reads a session from the database.
pub fn recall(data_dir: &DataDir, id: &str) -> Result<Session, ControlError> {
    let unknown = || ControlError::Unknown(id.to_owned());
    let id = SessionId::parse(id).ok_or_else(unknown)?;
    Store::open(&data_dir.database())?.get(&id)?.ok_or_else(unknown)
}

/// Detaches from the caller and runs `body` in a process that is not waited for. Its descriptor 0
/// is the session's socket; 1 and 2 are a terminal whose other end goes to the log.
///
/// The caller must be single-threaded, with the lock as descriptor 1 and the log as descriptor 2.
pub fn detach(data_dir: &DataDir, session: &Session, body: impl FnOnce() -> i32) -> io::Result<()> {
    let logs = Logs {
        present: data_dir.log(&session.id),
        before: data_dir.old_log(&session.id),
        runtime: data_dir.runtime(&session.id),
    };
    process::fork(|| {
        // Held until this process ends. The sandbox's processes do not inherit it.
        let Ok(_lock) = settle_in(&logs) else { return ExitCode::Setup.into() };
        body()
    })
    .map(drop)
}

fn settle_in(logs: &Logs) -> io::Result<OwnedFd> {
    process::lead_session()?;
    signal::reset()?;
    let lock = holder::sign(socket::copy(io::stdout().as_fd())?)?;
    let (ours, theirs) = pty::open(Size::default())?;
    for number in [1, 2] {
        fd::replace(number, &theirs)?;
    }
    drop(theirs);
    let mut ours = Some(ours);
    process::fork(|| match ours.take() {
        Some(ours) => i32::from(log_writer::run(ours, &lock, logs).is_err()),
        None => ExitCode::Failure.into(),
    })?;
    Ok(lock)
}
