//! Protection of single files: the caller's standard input, and paths whose mount was lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::create;
use crate::mount::{self, Flags};

/// Reopens standard input on a read-only mount if it is a file open for reading. Otherwise it could be reopened for
/// writing through `/proc/self/fd/0`. Needs a new mount namespace.
pub fn read_only_stdin() -> io::Result<()> {
    use crate::fd::{Kind, is_read_only, kind, replace};
    let stdin = rustix::stdio::stdin();
    // A deleted file concerns no other process.
    if kind(0) != Kind::File || !is_read_only(0) || rustix::fs::fstat(stdin)?.st_nlink == 0 {
        return Ok(());
    }
    let tree = mount::clone_tree(by_name(stdin)?.as_fd())?;
    mount::set_flags(tree.as_fd(), Flags { read_only: true, devices: false }, false)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&tree));
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        // A more privileged process opened it, so this one cannot open it for writing anyway.
        Err(Errno::ACCESS) => return Ok(()),
        file => file?,
    };
    let offset = rustix::fs::seek(stdin, rustix::fs::SeekFrom::Current(0))?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(offset))?;
    replace(0, &file)
}

/// Opens a file again by its name. An older descriptor refers to a mount of another namespace, which cannot be cloned
/// here.
fn by_name(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let path = std::fs::read_link(link)?;
    let named = mount::open_beneath(mount::open_dir(Path::new("/"))?.as_fd(), &path)?;
    let (before, now) = (rustix::fs::fstat(file)?, rustix::fs::fstat(&named)?);
    let same = (before.st_dev, before.st_ino) == (now.st_dev, now.st_ino);
    if same { Ok(named) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
}

/// Protection of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Read-only.
    ReadOnly,
    /// Empty.
    Hidden,
}

/// Protects a path again after the host replaced the file under its mount, which removes the mount. The caller has
/// entered the sandbox's namespaces.
pub fn protect_again(path: &Path, protection: Protection) -> io::Result<()> {
    let root = mount::open_dir(Path::new("/"))?;
    let target = mount::open_beneath(root.as_fd(), path)?;
    if is_mount_root(target.as_fd())? {
        return Ok(());
    }
    let tree = match protection {
        Protection::ReadOnly => mount::clone_tree(target.as_fd())?,
        Protection::Hidden => {
            let scratch = mount::tmpfs(0o755)?;
            create(scratch.as_fd(), Path::new("empty"), 0o444, b"")?;
            mount::clone_tree(mount::open_beneath(scratch.as_fd(), Path::new("empty"))?.as_fd())?
        }
    };
    mount::set_flags(tree.as_fd(), Flags { read_only: true, devices: false }, false)?;
    mount::attach(tree.as_fd(), target.as_fd())
}

/// Returns true if a path in this namespace still has its protection.
pub fn is_protected(path: &Path, protection: Protection) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    // Inside an overlay, a hidden file has no mount.
    let is_empty = || rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size == 0);
    is_mount_root(file.as_fd()).unwrap_or(false) || protection == Protection::Hidden && is_empty()
}

fn is_mount_root(path: BorrowedFd<'_>) -> io::Result<bool> {
    let stat = rustix::fs::statx(path, c"", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT))
}
