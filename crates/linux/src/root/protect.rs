//! Single files: the caller's standard input, and protection that was lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::create;
use crate::mount::{self, Flags};

/// Reopens a standard input that is a file open for reading on a read-only mount: through
/// `/proc/self/fd/0` it could be opened for writing otherwise. Needs a mount namespace of our own.
pub fn read_only_stdin() -> io::Result<()> {
    use crate::fd::{Kind, is_read_only, kind, replace};
    let stdin = rustix::stdio::stdin();
    // A file without a name is nobody else's any more.
    if kind(0) != Kind::File || !is_read_only(0) || rustix::fs::fstat(stdin)?.st_nlink == 0 {
        return Ok(());
    }
    let tree = mount::clone_tree(by_name(stdin)?.as_fd())?;
    mount::set_flags(tree.as_fd(), Flags { read_only: true, devices: false }, false)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&tree));
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        // Somebody with more rights opened it, so it cannot be opened for writing either.
        Err(Errno::ACCESS) => return Ok(()),
        file => file?,
    };
    let offset = rustix::fs::seek(stdin, rustix::fs::SeekFrom::Current(0))?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(offset))?;
    replace(0, &file)
}

/// The same file by its name. A descriptor from before belongs to the mounts of the namespace that
/// it was opened in, which cannot be copied from here.
fn by_name(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let path = std::fs::read_link(link)?;
    let named = mount::open_beneath(mount::open_dir(Path::new("/"))?.as_fd(), &path)?;
    let (before, now) = (rustix::fs::fstat(file)?, rustix::fs::fstat(&named)?);
    let same = (before.st_dev, before.st_ino) == (now.st_dev, now.st_ino);
    if same { Ok(named) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
}

/// What a path that was protected before has to become again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Read-only.
    ReadOnly,
    /// Empty.
    Hidden,
}

/// Protects a path again whose mount was lost because the host replaced the file under it.
/// The caller has entered the sandbox's namespaces.
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

/// Whether a path, seen from here, is still as protected as it was made.
pub fn is_protected(path: &Path, protection: Protection) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    // An overlay hides without a mount for each file.
    let is_empty = || rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size == 0);
    is_mount_root(file.as_fd()).unwrap_or(false) || protection == Protection::Hidden && is_empty()
}

fn is_mount_root(path: BorrowedFd<'_>) -> io::Result<bool> {
    let stat = rustix::fs::statx(path, c"", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT))
}
