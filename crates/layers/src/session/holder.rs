//! A session that is used by a container, which outlives the process that created it: the container has
//! it mounted, and its engine may start it at any time. No lock says so, but the record does.

use std::any::Any;
use std::fs;
use std::io;
use std::path::PathBuf;

use sandbox_linux::freeze;

use super::error::{SessionError, cannot};
use super::lock::Lock;
use super::opened::{LayerSession, RunState};

/// Processes that are held still until this is dropped.
pub type Frozen = Box<dyn Any>;

/// Holds what a holder runs still.
pub type Freeze<'f> = &'f dyn Fn(&str) -> io::Result<Frozen>;

impl LayerSession {
    /// Leaves the session in the hands of a holder: until that one is released, no other process gets its
    /// lock.
    pub fn hand_over(&mut self, _lock: Lock, holder: &str) -> Result<(), SessionError> {
        self.update(|record| record.holder = Some(holder.to_owned()))
    }

    /// Takes the session, which may be in this holder's hands.
    pub fn lock_as(&self, holder: &str) -> Result<Lock, SessionError> {
        self.lock_for(Some(holder))
    }

    /// Ends the run of a holder that uses the session no more. Of another one nothing changes.
    pub fn release(&mut self, holder: &str) -> Result<Vec<PathBuf>, SessionError> {
        if self.record().holder.as_deref() != Some(holder) {
            return Ok(Vec::new());
        }
        let lock = self.lock_as(holder)?;
        self.finish(&lock, None)
    }

    /// Returns true when a holder's overlay left something in the work directory of root number `root` that we
    /// cannot remove: root's keeps a whiteout there, which the next mount takes away.
    pub fn leaves_behind(&self, root: usize) -> bool {
        let own = self.work(root).join("work");
        fs::remove_dir(own).is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty)
    }

    /// Holds whatever runs in the session still: a holder's by `freeze`.
    pub(super) fn freeze(&self, freeze: Freeze<'_>) -> Result<Frozen, SessionError> {
        let frozen = match self.state() {
            RunState::Running(pid) => freeze::freeze(pid).map(|frozen| Box::new(frozen) as Frozen),
            RunState::Held(holder) => freeze(&holder),
            RunState::Stopped | RunState::Killed => return Err(self.busy()),
        };
        frozen.map_err(cannot("hold still", self.dir()))
    }

    pub(super) fn busy(&self) -> SessionError {
        SessionError::Busy { name: self.record().name.clone(), pid: None }
    }
}
