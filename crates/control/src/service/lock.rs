//! One command at a time works on a session. The lock goes with its holder.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{ControlError, cannot};

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for a lock.
    pub(super) fn take(path: &Path) -> Result<Self, ControlError> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(path).map_err(cannot("open", path))?;
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(cannot("lock", path)(error.into())),
            }
            // Who held it may have taken the session away, and its lock with it.
            if is_still_there(&file, path) {
                return Ok(Self { _file: file });
            }
        }
    }

    /// Takes the lock itself away. Who waits for it sees that it means nothing any more.
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

fn is_still_there(file: &File, path: &Path) -> bool {
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let there = std::fs::metadata(path).ok().map(identity);
    there.is_some() && there == file.metadata().ok().map(identity)
}

/// Whether somebody works on a session right now.
pub(super) fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}
