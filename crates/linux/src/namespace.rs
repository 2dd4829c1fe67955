//! Namespaces of our own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags};
use rustix::thread::{
    ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe,
};

/// Moves this process into a new user and mount namespace in which it has the same ids.
///
/// An ordinary user can map himself alone; root maps everybody, so that files of other users
/// keep their owners while the mounts are made.
pub fn own_user_and_mounts() -> io::Result<()> {
    let (uid, gid) = (crate::process::uid(), crate::process::gid());
    // SAFETY: neither flag shares or splits the descriptor table, which Rust objects rely on.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)? };
    if uid == 0 && write_maps(&everybody(), &everybody()).is_ok() {
        return Ok(());
    }
    // Without this an unprivileged process may not write its group map: user_namespaces(7).
    fs::write("/proc/self/setgroups", "deny")?;
    write_maps(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"))
}

fn everybody() -> String {
    format!("0 0 {}", u32::MAX)
}

fn write_maps(users: &str, groups: &str) -> io::Result<()> {
    fs::write("/proc/self/uid_map", users)?;
    fs::write("/proc/self/gid_map", groups)
}

/// The mount table of a running process. It becomes [`Event`](crate::channel::Awaited::Event)
/// whenever a mount is made or lost, also when the host unlinks what one lies on: `proc_pid_mountinfo(5)`.
#[derive(Debug)]
pub struct MountTable(fs::File);

impl MountTable {
    /// Takes hold of it as it is now.
    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self(fs::File::open(format!("/proc/{pid}/mountinfo"))?))
    }
}

impl AsFd for MountTable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The user and mount namespace of a running process.
#[derive(Debug)]
pub struct Namespaces(OwnedFd);

impl Namespaces {
    /// Takes hold of them; the caller must own that user namespace or one above it to enter.
    pub fn of(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Moves this process into them, with every capability there.
    pub fn enter(&self) -> io::Result<()> {
        let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
        Ok(move_into_thread_name_spaces(self.0.as_fd(), both)?)
    }
}
