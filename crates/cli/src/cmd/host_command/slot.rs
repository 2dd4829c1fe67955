//! How many requests run at a time, when each is a process of sshd's: as many as there are locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Takes a lock, if one is free. It lasts as long as the file is open, however its holder ends.
pub(super) fn take(state: &Path, limit: u32) -> io::Result<Option<File>> {
    for number in 0..limit {
        let path = state.join(format!("slot.{number}"));
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}
