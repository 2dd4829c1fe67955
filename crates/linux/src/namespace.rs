//! Namespaces of our own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags};
use rustix::thread::{
    ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe,
};

/// Moves this process into a new user, mount and cgroup namespace in which it has the same ids.
///
/// Inside another sandbox the cgroup namespace is refused; the outer one has its own already.
///
/// An ordinary user can map himself alone; root maps everybody, so that files of other users
/// keep their owners while the mounts are made.
pub fn own_user_and_mounts() -> io::Result<()> {
    let (uid, gid) = (crate::process::uid(), crate::process::gid());
    let needed = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    unshare(needed | UnshareFlags::NEWCGROUP).or_else(|_| unshare(needed))?;
    if uid == 0 && write_maps(&everybody(), &everybody()).is_ok() {
        return Ok(());
    }
    // Without this an unprivileged process may not write its group map: user_namespaces(7).
    fs::write("/proc/self/setgroups", "deny")?;
    write_maps(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"))
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no flag given here shares or splits the descriptor table, which Rust objects rely on.
    unsafe { unshare_unsafe(flags)? };
    Ok(())
}

fn everybody() -> String {
    format!("0 0 {}", u32::MAX)
}

fn write_maps(users: &str, groups: &str) -> io::Result<()> {
    fs::write("/proc/self/uid_map", users)?;
    fs::write("/proc/self/gid_map", groups)
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
