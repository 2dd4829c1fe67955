//! Temporary pause of a container. A child process unpauses it on request, or when its parent ends, so a killed
//! command leaves no container paused.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use sandbox_linux::process::{self, Child};

use super::engine::Engine;
use super::{Docker, names};
use crate::backend::{Backend, BackendError};
use crate::session::{Session, State};

/// Guard that keeps a container paused until it is dropped.
pub(super) struct Paused {
    hold: Option<OwnedFd>,
    child: Child,
}

impl Drop for Paused {
    fn drop(&mut self) {
        drop(self.hold.take());
        // The child ends now. There is no caller to report a failure to.
        let _ = self.child.wait();
    }
}

impl Docker {
    /// Pauses a container. One that was paused before stays paused after the guard is dropped. The caller must be
    /// single-threaded.
    pub(super) fn pause_until_dropped(
        &self,
        session: &Session,
    ) -> Result<Option<Paused>, BackendError> {
        match self.observe(session)?.state {
            State::Suspended => return Ok(None),
            State::Running => {}
            _ => {
                let text = format!("the container of session `{}` is not running", session.name);
                let hint = format!("take it down first: agent-sandbox down {}", session.name);
                return Err(BackendError::plain(text).code("not_running").hint(hint));
            }
        }
        // Fork first, so that the container is never paused without a process to unpause it.
        let held = self.fork_unpauser(session).map_err(|error| {
            BackendError::new("cannot fork the process that unpauses the container", error)
        })?;
        self.suspend(session)?;
        Ok(Some(held))
    }

    fn fork_unpauser(&self, session: &Session) -> io::Result<Paused> {
        let (until, hold) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut ours = Some(hold);
        let child = process::fork(|| {
            // Only the caller's end may keep the pipe open.
            drop(ours.take());
            i32::from(self.wait_and_unpause(session, until).is_err())
        })?;
        Ok(Paused { hold: ours, child })
    }

    /// Runs in the child, with a separate connection to the engine.
    fn wait_and_unpause(&self, session: &Session, until: OwnedFd) -> io::Result<()> {
        // ^C on the terminal must not kill this process.
        rustix::process::setsid()?;
        let mut rest = Vec::new();
        std::fs::File::from(until).read_to_end(&mut rest)?;
        let engine = Engine::connect(&self.host).map_err(io::Error::other)?;
        let name = names::container(session);
        let resumed = engine.docker.unpause_container(&name);
        engine.call("unpause the container", resumed).map_err(io::Error::other)
    }
}
