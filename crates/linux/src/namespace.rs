//! Namespaces of our own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

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
    Ok(unsafe { unshare_unsafe(flags)? })
}

fn everybody() -> String {
    format!("0 0 {}", u32::MAX)
}

fn write_maps(users: &str, groups: &str) -> io::Result<()> {
    fs::write("/proc/self/uid_map", users)?;
    fs::write("/proc/self/gid_map", groups)
}

/// The mount table of a running process. It becomes [`Event`](crate::channel::Awaited::Event)
/// whenever a mount is made or lost, also when the host unlinks what one lies on: proc_pid_mountinfo(5).
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

/// The mount namespace of a running process, and the user namespace that it belongs to.
#[derive(Debug)]
pub struct Namespaces {
    users: OwnedFd,
    mounts: OwnedFd,
}

impl Namespaces {
    /// Takes hold of them, also beyond the end of the process.
    ///
    /// A process can be in a user namespace below the one that owns its mounts, as bubblewrap's
    /// are when it mounts terminals for an ordinary user; in that one it could not mount.
    pub fn of(pid: i32) -> io::Result<Self> {
        let mounts = OwnedFd::from(fs::File::open(format!("/proc/{pid}/ns/mnt"))?);
        // SAFETY: asks about an open descriptor; the answer is a new descriptor or an error.
        let users = unsafe { libc::ioctl(mounts.as_raw_fd(), libc::NS_GET_USERNS) };
        if users < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just opened it, so nobody else owns it.
        let users = unsafe { OwnedFd::from_raw_fd(users) };
        Ok(Self { users, mounts })
    }

    /// Moves this process into them, with every capability there. The caller must own that user
    /// namespace or one above it.
    pub fn enter(&self) -> io::Result<()> {
        let join = |fd: &OwnedFd, kind| move_into_link_name_space(fd.as_fd(), Some(kind));
        join(&self.users, LinkNameSpaceType::User)?;
        Ok(join(&self.mounts, LinkNameSpaceType::Mount)?)
    }
}
