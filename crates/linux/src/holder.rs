//! Background processes identified by the lock file that they hold.
//!
//! The parent takes the lock before it starts the process and passes it on, so the lock is held until the last of the
//! two ends. A pid in the file counts only while the lock is held, and only together with the start time of the process.

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

/// Time between `SIGTERM` and `SIGKILL`. The process gives its command ten seconds, and then scans for planted files.
const GRACE: Duration = Duration::from_secs(30);
/// Time limit for processes that hold the lock without having signed it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Process that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Pid and start time; `None` until the process has signed the lock.
    known: Option<(i32, u64)>,
}

impl Holder {
    /// Returns the pid, if it still refers to the same process.
    pub fn process(self) -> Option<i32> {
        let (pid, start) = self.known?;
        (process::start_of(pid) == Some(start)).then_some(pid)
    }
}

/// Takes a lock. Returns `None` if another process holds it.
pub fn take(path: &Path) -> io::Result<Option<OwnedFd>> {
    Ok(LockFile::try_take(path)?.map(Into::into))
}

/// Signs a lock for this process and returns it.
pub fn sign(lock: OwnedFd) -> io::Result<OwnedFd> {
    sign_lock(lock.as_fd())?;
    Ok(lock)
}

/// Writes the pid and start time of this process to a lock file that it inherited.
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
    // An unreadable signature counts as missing.
    let _ = Read::take(&mut file, 64).read_to_string(&mut text);
    let known = text
        .trim()
        .split_once(' ')
        .and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    Some(Holder { known })
}

/// Ends the holder of a lock and waits until the lock is free. A new process may not have signed yet, and processes that
/// share the lock may outlive the one that signed.
pub fn end(path: &Path) -> io::Result<()> {
    let (mut end, mut asked) = (Instant::now() + PATIENCE, None);
    while let Some(holder) = of(path) {
        if let Some(pid) = holder.process().filter(|pid| asked != Some(*pid))
            && let Ok(handle) = ProcessHandle::open(pid)
            // Read again, to be sure that the handle is not of a later process with the same pid.
            && of(path).and_then(Holder::process) == Some(pid)
        {
            ask_to_end(&handle)?;
            (end, asked) = (Instant::now() + PATIENCE, Some(pid));
        }
        if Instant::now() > end {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "cannot end a process of the session",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn ask_to_end(handle: &ProcessHandle) -> io::Result<()> {
    // The process may already have ended.
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
