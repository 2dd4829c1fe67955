//! A background process, known by the lock file that it holds.
//!
//! The lock is taken before the process is started, and handed to it: from then on it is held until
//! the last of them ends, whoever kills whom. A number in a file is believed only while the lock is
//! held, and only together with the time at which that process began.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::channel::{self, Awaited};
use crate::lock::{LockFile, held};
use crate::process::{self, ProcessHandle};
use crate::signal;

/// How long it may take to end after it was asked to. It gives its command ten seconds, and then
/// looks at what was left behind.
const GRACE: Duration = Duration::from_secs(30);
/// How long the lock may stay held by processes that cannot be asked to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Process that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Number and start; nothing before it has said so.
    known: Option<(i32, u64)>,
}

impl Holder {
    /// Returns its process id, if that still means the same process.
    pub fn process(self) -> Option<i32> {
        let (pid, start) = self.known?;
        (process::start_of(pid) == Some(start)).then_some(pid)
    }
}

/// Takes a lock. Returns `None` if another process holds it.
pub fn take(path: &Path) -> io::Result<Option<OwnedFd>> {
    Ok(LockFile::try_take(path)?.map(Into::into))
}

/// Signs a lock and returns it: this process holds it from now on.
pub fn sign(lock: OwnedFd) -> io::Result<OwnedFd> {
    sign_lock(lock.as_fd())?;
    Ok(lock)
}

/// Writes this process's id and start time into a lock file that it was started with.
pub fn sign_lock(lock: BorrowedFd<'_>) -> io::Result<()> {
    let file = File::from(lock.try_clone_to_owned()?);
    let pid = process::pid();
    let start = process::start_of(pid).unwrap_or(0);
    file.set_len(0)?;
    file.write_all_at(format!("{pid} {start}\n").as_bytes(), 0)
}

/// Returns the holder of a lock, or `None` when it is free or missing.
pub fn of(path: &Path) -> Option<Holder> {
    let mut file = held(path)?;
    let mut text = String::new();
    // What cannot be read is not known yet.
    let _ = Read::take(&mut file, 64).read_to_string(&mut text);
    let known = text
        .trim()
        .split_once(' ')
        .and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    Some(Holder { known })
}

/// Ends the holder of a lock, and waits until the lock is free. A process that was just started may
/// not have signed yet, and the processes that share the lock may outlive the one that signed.
pub fn end(path: &Path) -> io::Result<()> {
    let (mut end, mut asked) = (Instant::now() + PATIENCE, None);
    while let Some(holder) = of(path) {
        if let Some(pid) = holder.process().filter(|pid| asked != Some(*pid))
            && let Ok(handle) = ProcessHandle::open(pid)
            // Read again: the handle is of the process that signed, not of a later one with its number.
            && of(path).and_then(Holder::process) == Some(pid)
        {
            ask_to_end(&handle)?;
            (end, asked) = (Instant::now() + PATIENCE, Some(pid));
        }
        if Instant::now() > end {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "a process of the session does not end",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn ask_to_end(handle: &ProcessHandle) -> io::Result<()> {
    // It may have ended by itself.
    let _ = handle.signal(signal::TERM);
    let end = Instant::now() + GRACE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let limit = u64::try_from(left.as_millis()).unwrap_or(0);
        if channel::wait(&[(handle.as_fd(), Awaited::Data)], Some(limit))?.contains(&true) {
            return Ok(());
        }
        if left.is_zero() {
            let _ = handle.signal(signal::KILL);
            return handle.wait_for_end();
        }
    }
}
