//! One at a time: a lock that the kernel lets go of when its holder dies.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::{SessionError, cannot};

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A look at the state takes the lock for an instant; a second try comes after that.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(5);

impl Lock {
    /// Takes a lock and leaves our process number in it; nothing if somebody else has it.
    pub(super) fn try_take(path: &Path) -> Result<Option<Self>, SessionError> {
        let mut file = open(path)?;
        for turn in 0..TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let pid = sandbox_linux::process::pid().to_string();
                    let written = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
                    written.map_err(cannot("write", path))?;
                    return Ok(Some(Self { _file: file }));
                }
                Err(Errno::WOULDBLOCK) if turn + 1 < TRIES => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(cannot("lock", path)(error)),
            }
        }
        Ok(None)
    }

    /// Waits for a lock that is only ever held for a moment.
    pub(super) fn take(path: &Path) -> Result<Self, SessionError> {
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive).map_err(cannot("lock", path))?;
        Ok(Self { _file: file })
    }
}

/// Who holds a lock; nothing when it is free.
pub(super) fn holder(path: &Path) -> Option<i32> {
    let file = File::open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    Some(read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0))
}

fn open(path: &Path) -> Result<File, SessionError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(cannot("open", path))
}
