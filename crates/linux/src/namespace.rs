//! Namespaces of our own.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::enclosure::Ids;

/// Moves this process into a new user, mount and cgroup namespace in which it has the same ids.
///
/// Inside another sandbox the cgroup namespace is refused; the outer one has its own already.
pub fn own_user_and_mounts() -> io::Result<()> {
    let ids = Ids::own(None);
    let needed = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    unshare(needed | UnshareFlags::NEWCGROUP).or_else(|_| unshare(needed))?;
    ids.map()
}

/// Moves this process into a new user and network namespace in which it has these ids.
pub fn own_network(ids: &Ids) -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    ids.map()
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no flag given here shares or splits the descriptor table, which Rust objects rely on.
    unsafe { unshare_unsafe(flags)? };
    Ok(())
}

/// The mounts that a sandbox sees, held by somebody outside of it.
#[derive(Debug)]
pub struct Inside {
    root: OwnedFd,
    mounts: OwnedFd,
    /// The user namespace that the mounts belong to. A process among them may be in one further
    /// down, which has no say over them.
    owner: OwnedFd,
    table: OwnedFd,
}

impl Inside {
    /// Those of a running process, which must be open to us: `ptrace(2)` on access mode.
    pub fn of(pid: i32) -> io::Result<Self> {
        Self::received(open_mounts(&pid.to_string())?)
    }

    /// Those of this process, to be sent.
    pub fn own() -> io::Result<[OwnedFd; 3]> {
        open_mounts("self")
    }

    /// What another process sent.
    pub fn received([root, mounts, table]: [OwnedFd; 3]) -> io::Result<Self> {
        Ok(Self { root, owner: owner(mounts.as_fd())?, mounts, table })
    }

    /// A path inside, as this process can open it.
    pub fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The mount table. It becomes [`Event`](crate::channel::Awaited::Event) whenever a mount is
    /// made or lost, also when the host unlinks what one lies on: `proc_pid_mountinfo(5)`.
    pub fn table(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }

    /// Moves this process among them, with every capability there. The caller must own that user
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

fn open_mounts(process: &str) -> io::Result<[OwnedFd; 3]> {
    let at = |name: &str| Path::new("/proc").join(process).join(name);
    let (mounts, table) = (File::open(at("ns/mnt"))?, File::open(at("mountinfo"))?);
    Ok([crate::mount::open_dir(&at("root"))?, mounts.into(), table.into()])
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
