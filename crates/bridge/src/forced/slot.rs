//! How many requests run at a time, when each is a process of sshd's: as many as there are locks.

use std::io;
use std::path::Path;

use sandbox_linux::lock::LockFile;

/// Takes a lock, if one is free. It lasts as long as the file is open, however its holder ends.
pub(super) fn take(state: &Path, limit: u32) -> io::Result<Option<LockFile>> {
    for number in 0..limit {
        let path = state.join(format!("slot.{number}"));
        if let Some(lock) = LockFile::try_take(&path)? {
            return Ok(Some(lock));
        }
    }
    Ok(None)
}
