//! The process of a session outside: it leaves its caller behind and launches the sandbox, with our own binary as the
//! command, which starts others on request.

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

/// Why a session's sandbox did not start.
#[derive(Debug, Error)]
pub enum SuperviseError {
    /// The session's request cannot be read.
    #[error(transparent)]
    Request(#[from] serde_json::Error),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration asks for what this backend cannot do.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The configuration is not the one that the session was made by.
    #[error("the configuration has changed since it was looked at")]
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
            Self::Changed => Some("type the command again".into()),
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

/// Launches a session's sandbox and waits for its end.
pub fn run(host: &Host, session: &Session, events: &mut dyn Events) -> Result<u8, SuperviseError> {
    let started = sandbox_linux::clock::wall_exactly();
    let request = Request::recall(&session.request)?;
    let (config, agent) = shape(config::load(host, &request)?)?;
    // What is carried out is what was decided about.
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

/// What is on record of a session that is about to be run.
pub fn recall(data_dir: &DataDir, id: &str) -> Result<Session, ControlError> {
    let unknown = || ControlError::Unknown(id.to_owned());
    let id = SessionId::parse(id).ok_or_else(unknown)?;
    Store::open(&data_dir.database())?.get(&id)?.ok_or_else(unknown)
}

/// Leaves the caller behind and runs `body` in a process that nobody waits for. It has the
/// session's socket as descriptor 0, and a terminal whose other end goes to the log as 1 and 2.
///
/// The caller must be single-threaded, with the lock as descriptor 1 and the log as 2.
pub fn detach(data_dir: &DataDir, session: &Session, body: impl FnOnce() -> i32) -> io::Result<()> {
    let logs = Logs {
        present: data_dir.log(&session.id),
        before: data_dir.old_log(&session.id),
        runtime: data_dir.runtime(&session.id),
    };
    process::fork(|| {
        // Held until this process ends; the sandbox's own processes do not get it.
        let Ok(_lock) = settle_in(&logs) else { return ExitCode::Setup.into() };
        body()
    })
    .map(drop)
}

fn settle_in(logs: &Logs) -> io::Result<OwnedFd> {
    process::lead_session()?;
    signal::forget_the_callers()?;
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
