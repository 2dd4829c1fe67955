//! Namespaces of our own.

use std::fs::{self, File};
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

/// The mount table of a running process. It becomes [`Event`](crate::channel::Awaited::Event)
/// whenever a mount is made or lost, also when the host unlinks what one lies on: `proc_pid_mountinfo(5)`.
#[derive(Debug)]
pub struct MountTable(File);

impl MountTable {
    /// Takes hold of it as it is now.
    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self(File::open(format!("/proc/{pid}/mountinfo"))?))
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
    owner: OwnedFd,
    mounts: OwnedFd,
}

impl Namespaces {
    /// Takes hold of them; the caller must own that user namespace or one above it to enter.
    ///
    /// The process itself may be in a user namespace further down, which has no say over its mounts.
    pub fn of(pid: i32) -> io::Result<Self> {
        let mounts = OwnedFd::from(File::open(format!("/proc/{pid}/ns/mnt"))?);
        Ok(Self { owner: owner(mounts.as_fd())?, mounts })
    }

    /// Moves this process into them, with every capability there. The caller must own that user
    /// namespace or one above it.
    pub fn enter(&self) -> io::Result<()> {
        match move_into_link_name_space(self.owner.as_fd(), Some(LinkNameSpaceType::User)) {
            // The kernel's answer when this process is in that user namespace already.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?)
    }
}

/// The user namespace that a namespace belongs to: `ioctl_ns(2)`.
fn owner(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the request takes no argument and returns a new descriptor or -1.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (checked above), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
