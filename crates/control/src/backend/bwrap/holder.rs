//! The one process of a session outside, known by the lock that it holds.
//!
//! The lock is taken before the process is started, and handed to it: from then on it is held until
//! the last of them ends, whoever kills whom. A number in a file is believed only while the lock is
//! held, and only together with the time at which that process began.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::process::{self, ProcessHandle};
use sandbox_linux::signal;

/// How long it may take to end after it was asked to. It gives its command ten seconds, and then
/// looks at what was left behind.
const GRACE: Duration = Duration::from_secs(30);
/// How long its last processes may take to go after it.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// How long a process that has just been started may take to say who it is.
const BEGINNING: Duration = Duration::from_secs(10);

/// Whoever holds the lock of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) struct Holder {
    /// Number and start; nothing before it has said so.
    known: Option<(i32, u64)>,
}

impl Holder {
    /// The process, if that number still means it.
    pub(super) fn process(self) -> Option<i32> {
        let (pid, start) = self.known?;
        (process::start_of(pid) == Some(start)).then_some(pid)
    }
}

/// Takes the lock; nothing if somebody holds it.
pub(in crate::backend) fn take(path: &Path) -> io::Result<Option<OwnedFd>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file.into())),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Says who holds a lock from now on: this process.
pub(super) fn sign(lock: OwnedFd) -> io::Result<OwnedFd> {
    let mut file = File::from(lock);
    let pid = process::pid();
    let start = process::start_of(pid).unwrap_or(0);
    file.set_len(0)?;
    file.write_all(format!("{pid} {start}\n").as_bytes())?;
    Ok(file.into())
}

/// Who holds a lock; nothing when it is free or not there.
pub(in crate::backend) fn of(path: &Path) -> Option<Holder> {
    let mut file = File::open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = String::new();
    // What cannot be read is not known yet.
    let _ = Read::take(&mut file, 64).read_to_string(&mut text);
    let known = text
        .trim()
        .split_once(' ')
        .and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    Some(Holder { known })
}

/// Ends whoever holds a lock, and waits until nobody does.
pub(in crate::backend) fn end(path: &Path) -> io::Result<()> {
    let Some(pid) = known(path) else { return wait_until_free(path) };
    if let Ok(handle) = ProcessHandle::open(pid)
        // Opened after the look, so once more: the handle means whom the lock means.
        && of(path).and_then(Holder::process) == Some(pid)
    {
        ask_to_end(&handle)?;
    }
    wait_until_free(path)
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

/// The process that holds a lock. One that was just started may not have signed yet.
fn known(path: &Path) -> Option<i32> {
    let end = Instant::now() + BEGINNING;
    loop {
        let holder = of(path)?;
        if let Some(pid) = holder.process() {
            return Some(pid);
        }
        if Instant::now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until_free(path: &Path) -> io::Result<()> {
    let end = Instant::now() + AFTERWARDS;
    while of(path).is_some() {
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
