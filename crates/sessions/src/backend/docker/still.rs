//! Holding a container still for a moment. A child of ours lets it go again when we say so, or when we are gone: a
//! killed caller leaves nobody paused.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use sandbox_linux::process::{self, Child};

use super::engine::Engine;
use super::{Docker, name};
use crate::backend::{Backend, BackendError};
use crate::session::{Session, State};

/// A container that is held still until this is dropped.
pub(super) struct Held {
    hold: Option<OwnedFd>,
    child: Child,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.hold.take());
        // It ends by itself now; nobody is left to tell if it does not.
        let _ = self.child.wait();
    }
}

impl Docker {
    /// Holds a container still; one that is so already stays so. The caller must be single-threaded.
    pub(super) fn hold_container(&self, session: &Session) -> Result<Option<Held>, BackendError> {
        match self.observe(session)?.state {
            State::Suspended => return Ok(None),
            State::Running => {}
            _ => {
                let text = format!("the container of `{}` does not run", session.name);
                let hint = format!("take it down first: agent-sandbox down {}", session.name);
                return Err(BackendError::plain(text).code("not_running").hint(hint));
            }
        }
        // Before it is held: there is no moment in which nobody would let it go.
        let held = self.letting_go(session).map_err(|error| {
            BackendError::new("nobody can be made who lets the container go again", error)
        })?;
        self.suspend(session)?;
        Ok(Some(held))
    }

    fn letting_go(&self, session: &Session) -> io::Result<Held> {
        let (until, hold) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut ours = Some(hold);
        let child = process::fork(|| {
            // Only the caller's own end may keep the pipe open.
            drop(ours.take());
            i32::from(self.wait_and_resume(session, until).is_err())
        })?;
        Ok(Held { hold: ours, child })
    }

    /// The child. What it says to the engine goes over a connection of its own.
    fn wait_and_resume(&self, session: &Session, until: OwnedFd) -> io::Result<()> {
        // A key on the terminal that ends the caller must not end this one.
        rustix::process::setsid()?;
        let mut rest = Vec::new();
        std::fs::File::from(until).read_to_end(&mut rest)?;
        let engine = Engine::connect(&self.host).map_err(io::Error::other)?;
        let name = name(session);
        let resumed = engine.docker.unpause_container(&name);
        engine.ask("let the container go on", resumed).map_err(io::Error::other)
    }
}
