//! Limit of concurrent requests when each is a separate process of sshd. Each holds one of a set of locks.

use std::io;
use std::path::Path;

use sandbox_linux::lock::LockFile;

/// Takes a free lock, if any. The kernel releases it when its holder ends for any reason: flock(2).
pub(super) fn take(state: &Path, limit: u32) -> io::Result<Option<LockFile>> {
    for number in 0..limit {
        let path = state.join(format!("slot.{number}"));
        if let Some(lock) = LockFile::try_take(&path)? {
            return Ok(Some(lock));
        }
    }
    Ok(None)
}
