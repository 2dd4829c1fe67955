//! Lock of a session: only one command at a time changes it.

use std::path::Path;

use sandbox_linux::lock::{LockFile, held};

use crate::error::{ControlError, cannot};

/// Lock that is held until it is dropped or its process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: LockFile,
}

impl Lock {
    /// Waits for the lock.
    pub(super) fn take(path: &Path) -> Result<Self, ControlError> {
        loop {
            let lock = LockFile::open(path).map_err(cannot("open", path))?;
            lock.exclusive().map_err(cannot("lock", path))?;
            // The previous holder may have removed the session and this file.
            if lock.is_at(path) {
                return Ok(Self { _file: lock });
            }
        }
    }

    /// Removes the lock file. Processes that wait for it notice that and open a new one.
    pub(super) fn remove(lock: Self, path: &Path) -> Result<(), ControlError> {
        let removed = std::fs::remove_file(path);
        drop(lock);
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns true while a command is changing the session.
pub(super) fn is_held(path: &Path) -> bool {
    held(path).is_some()
}
