//! Pausing a container for a moment. A child process unpauses it when told to, or when its parent is gone: a killed
//! command leaves no container paused.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use sandbox_linux::process::{self, Child};

use super::engine::Engine;
use super::{Docker, names};
use crate::backend::{Backend, BackendError};
use crate::session::{Session, State};

/// Container that is paused until this is dropped.
pub(super) struct Paused {
    hold: Option<OwnedFd>,
    child: Child,
}

impl Drop for Paused {
    fn drop(&mut self) {
        drop(self.hold.take());
        // It ends now; a failure has no caller left to report to.
        let _ = self.child.wait();
    }
}

impl Docker {
    /// Pauses a container. One that is paused already stays so. The caller must be single-threaded.
    pub(super) fn pause_until_dropped(
        &self,
        session: &Session,
    ) -> Result<Option<Paused>, BackendError> {
        match self.observe(session)?.state {
            State::Suspended => return Ok(None),
            State::Running => {}
            _ => {
                let text = format!("the container of `{}` does not run", session.name);
                let hint = format!("take it down first: agent-sandbox down {}", session.name);
                return Err(BackendError::plain(text).code("not_running").hint(hint));
            }
        }
        // Forked first: at no moment is the container paused without a process that unpauses it.
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
            // Only the caller's own end may keep the pipe open.
            drop(ours.take());
            i32::from(self.wait_and_unpause(session, until).is_err())
        })?;
        Ok(Paused { hold: ours, child })
    }

    /// The child. What it says to the engine goes over a connection of its own.
    fn wait_and_unpause(&self, session: &Session, until: OwnedFd) -> io::Result<()> {
        // A key on the terminal that ends the caller must not end this one.
        rustix::process::setsid()?;
        let mut rest = Vec::new();
        std::fs::File::from(until).read_to_end(&mut rest)?;
        let engine = Engine::connect(&self.host).map_err(io::Error::other)?;
        let name = names::container(session);
        let resumed = engine.docker.unpause_container(&name);
        engine.ask("unpause the container", resumed).map_err(io::Error::other)
    }
}
