//! Sessions used by a container, which outlives the process that created it. The container has the session mounted, and
//! its engine may start it at any time. The record stores this, because no lock can.

use std::any::Any;
use std::fs;
use std::io;
use std::path::PathBuf;

use sandbox_linux::freeze;

use super::error::{SessionError, cannot};
use super::lock::Lock;
use super::opened::{LayerSession, RunState};

/// Processes that stay frozen until this is dropped.
pub type Frozen = Box<dyn Any>;

/// Function that freezes the processes of a holder.
pub type Freeze<'f> = &'f dyn Fn(&str) -> io::Result<Frozen>;

impl LayerSession {
    /// Assigns the session to a holder. No other process gets its lock until the holder is released.
    pub fn hand_over(&mut self, _lock: Lock, holder: &str) -> Result<(), SessionError> {
        self.update(|record| record.holder = Some(holder.to_owned()))
    }

    /// Locks the session, which this holder may use.
    pub fn lock_as(&self, holder: &str) -> Result<Lock, SessionError> {
        self.lock_for(Some(holder))
    }

    /// Ends the run of a holder that no longer uses the session. Does nothing for any other holder.
    pub fn release(&mut self, holder: &str) -> Result<Vec<PathBuf>, SessionError> {
        if self.record().holder.as_deref() != Some(holder) {
            return Ok(Vec::new());
        }
        let lock = self.lock_as(holder)?;
        self.finish(&lock, None)
    }

    /// Returns true when a holder's overlay left a file in the work directory of root number `root` that this user
    /// cannot remove. An overlay mounted by root keeps a whiteout there, which the next mount removes.
    pub fn leaves_behind(&self, root: usize) -> bool {
        let own = self.work(root).join("work");
        fs::remove_dir(own).is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty)
    }

    /// Freezes the processes of the session, those of a holder with `freeze`.
    pub(super) fn freeze_processes(&self, freeze: Freeze<'_>) -> Result<Frozen, SessionError> {
        let frozen = match self.state() {
            RunState::Running(pid) => freeze::freeze(pid).map(|frozen| Box::new(frozen) as Frozen),
            RunState::Held(holder) => freeze(&holder),
            RunState::Stopped | RunState::Killed => return Err(self.busy()),
        };
        frozen.map_err(cannot("freeze", self.dir()))
    }

    pub(super) fn busy(&self) -> SessionError {
        SessionError::Busy { name: self.record().name.clone(), pid: None }
    }
}
