//! Lock of a session, whose file names the process that holds it.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use sandbox_linux::lock::{LockFile, held};

use super::error::{SessionError, cannot};

/// Lock that is held until it is dropped or its process ends.
#[derive(Debug)]
pub struct Lock {
    _file: LockFile,
}

/// Longest wait for a lock. A state query holds it for an instant.
const PATIENCE: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes a lock and writes the PID of this process into it. Returns `None` if another process has it.
    pub(super) fn try_take(path: &Path) -> Result<Option<Self>, SessionError> {
        let lock = LockFile::open(path).map_err(cannot("open", path))?;
        if !lock.exclusive_within(PATIENCE).map_err(cannot("lock", path))? {
            return Ok(None);
        }
        let pid = sandbox_linux::process::pid().to_string();
        let mut file = lock.file();
        let written = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
        written.map_err(cannot("write", path))?;
        Ok(Some(Self { _file: lock }))
    }

    /// Waits for a lock that is held only briefly.
    pub(super) fn take(path: &Path) -> Result<Self, SessionError> {
        let lock = LockFile::open(path).map_err(cannot("open", path))?;
        lock.exclusive().map_err(cannot("lock", path))?;
        Ok(Self { _file: lock })
    }
}

/// Returns the PID of the process that holds a lock, or `None` if it is free.
pub(super) fn holder(path: &Path) -> Option<i32> {
    let mut text = String::new();
    let read = held(path)?.take(32).read_to_string(&mut text);
    Some(read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0))
}
