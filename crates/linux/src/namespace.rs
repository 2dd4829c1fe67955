//! Creating and entering namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::enclosure::Ids;

/// Moves this process into a new user, mount and cgroup namespace in which it keeps its ids.
///
/// Inside another sandbox the cgroup namespace is refused, and the outer sandbox already provides one.
pub fn own_user_and_mounts() -> io::Result<()> {
    let ids = Ids::own(None);
    let needed = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    unshare(needed | UnshareFlags::NEWCGROUP).or_else(|_| unshare(needed))?;
    ids.map()
}

/// Moves this process into a new user and network namespace with these ids.
pub fn own_network(ids: &Ids) -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    ids.map()
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no flag given here shares or splits the descriptor table, which Rust objects rely on.
    unsafe { unshare_unsafe(flags)? };
    Ok(())
}

/// Mounts that a sandbox sees, held by a process outside of it.
#[derive(Debug)]
pub struct Inside {
    root: OwnedFd,
    mounts: OwnedFd,
    /// User namespace that owns the mounts. A process in the sandbox may be in a nested one, which has no privilege
    /// over these mounts.
    owner: OwnedFd,
    table: OwnedFd,
}

impl Inside {
    /// Opens the mounts of a running process, which must pass the access check of ptrace(2).
    pub fn of(pid: i32) -> io::Result<Self> {
        Self::received(open_mounts(&pid.to_string())?)
    }

    /// Returns descriptors of this process's mounts, to be sent to another process.
    pub fn own() -> io::Result<[OwnedFd; 3]> {
        open_mounts("self")
    }

    /// Takes the descriptors that another process sent.
    pub fn received([root, mounts, table]: [OwnedFd; 3]) -> io::Result<Self> {
        Ok(Self { root, owner: owner(mounts.as_fd())?, mounts, table })
    }

    /// Returns a path inside as this process can open it.
    pub fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the mount table. It becomes [`Event`](crate::channel::Awaited::Event) whenever a mount is added or
    /// removed, also when the host unlinks a mount point: `proc_pid_mountinfo(5)`.
    pub fn table(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }

    /// Moves this process into these mounts, with every capability there. The caller must own that user namespace or
    /// one of its ancestors.
    pub fn enter(&self) -> io::Result<()> {
        match move_into_link_name_space(self.owner.as_fd(), Some(LinkNameSpaceType::User)) {
            // `EINVAL` means that this process is already in that user namespace: setns(2).
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?)
    }
}

fn open_mounts(process: &str) -> io::Result<[OwnedFd; 3]> {
    let at = |name: &str| Path::new("/proc").join(process).join(name);
    let (mounts, table) = (File::open(at("ns/mnt"))?, File::open(at("mountinfo"))?);
    Ok([crate::mount::open_dir(&at("root"))?, mounts.into(), table.into()])
}

/// Opens the user namespace that owns a namespace: `ioctl_ns(2)`.
fn owner(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the request takes no argument and returns a new descriptor or -1.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (checked above), and no object owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
