//! Mounts by descriptor: clone a tree, set its flags, attach it.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// Flags of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Read-only.
    pub read_only: bool,
    /// Device files can be opened.
    pub devices: bool,
}

impl Flags {
    fn bits(self) -> u64 {
        let read_only = if self.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
        let devices = if self.devices { 0 } else { libc::MOUNT_ATTR_NODEV };
        read_only | devices | libc::MOUNT_ATTR_NOSUID
    }
}

/// Opens `path` below `root` without following any symlink. Paths were resolved while planning, so a link that was
/// swapped in since fails with `ELOOP`.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    Ok(rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve)?)
}

/// Returns a detached copy of the mounts at and below an open path.
pub(crate) fn clone_tree(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone_with(at, OpenTreeFlags::AT_RECURSIVE)
}

/// Returns a detached copy of the mount at an open path, without the mounts below it.
pub(crate) fn clone_mount(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone_with(at, OpenTreeFlags::empty())
}

fn clone_with(at: BorrowedFd<'_>, more: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(at, c"", flags | more)?)
}

/// Sets flags on a mount; `recursive` includes the mounts below it.
pub(crate) fn set_flags(mount: BorrowedFd<'_>, flags: Flags, recursive: bool) -> io::Result<()> {
    change(mount, Change { set: flags.bits(), ..Change::default() }, recursive)
}

/// Makes a mount read-only.
pub fn seal(mount: BorrowedFd<'_>) -> io::Result<()> {
    change(mount, Change { set: libc::MOUNT_ATTR_RDONLY, ..Change::default() }, false)
}

/// Stops the propagation of mounts to and from other namespaces.
pub(crate) fn make_private(root: BorrowedFd<'_>) -> io::Result<()> {
    change(root, Change { propagation: libc::MS_PRIVATE, ..Change::default() }, true)
}

#[derive(Default, Clone, Copy)]
struct Change {
    set: u64,
    clear: u64,
    propagation: u64,
}

fn change(mount: BorrowedFd<'_>, change: Change, recursive: bool) -> io::Result<()> {
    let Change { set, clear, propagation } = change;
    let attr = libc::mount_attr { attr_set: set, attr_clr: clear, propagation, userns_fd: 0 };
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the empty path is a C string, and the size is that of `attr`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            mem::size_of_val(&attr),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Attaches a detached mount on top of an open path.
pub fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", target, c"", flags)?)
}

/// Creates an empty, detached tmpfs.
pub fn tmpfs(mode: u32) -> io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", format!("{mode:o}"))?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Creates a detached devpts instance.
pub fn devpts() -> io::Result<OwnedFd> {
    let context = fsopen(c"devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("ptmxmode", "0666"), ("mode", "620")] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Creates a detached procfs of this PID namespace.
pub fn proc() -> io::Result<OwnedFd> {
    let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Mounts a read-only overlay of `upper` over `lower` at `target`. The kernel gets both as lower layers, so nothing can
/// be written. `upper` may hide names of `lower` with whiteouts: overlayfs.rst.
pub(crate) fn read_only_overlay(upper: &Path, lower: &Path, target: &Path) -> io::Result<()> {
    let mut data = b"userxattr,lowerdir=".to_vec();
    data.extend(escape(upper));
    data.push(b':');
    data.extend(escape(lower));
    let data = CString::new(data)?;
    let flags = rustix::mount::MountFlags::RDONLY
        | rustix::mount::MountFlags::NOSUID
        | rustix::mount::MountFlags::NODEV;
    Ok(rustix::mount::mount(c"overlay", target, c"overlay", flags, Some(data.as_c_str()))?)
}

/// Mounts an overlay at `target`. The layers in `lower`, topmost first, are read-only; changes go to `upper`.
pub fn overlay(lower: &[PathBuf], upper: &Path, work: &Path, target: &Path) -> io::Result<()> {
    let mut data = b"userxattr,lowerdir=".to_vec();
    for (index, layer) in lower.iter().enumerate() {
        if index > 0 {
            data.push(b':');
        }
        data.extend(escape(layer));
    }
    for (key, path) in [(&b",upperdir="[..], upper), (b",workdir=", work)] {
        data.extend(key);
        data.extend(escape(path));
    }
    let data = CString::new(data)?;
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    Ok(rustix::mount::mount(c"overlay", target, c"overlay", flags, Some(data.as_c_str()))?)
}

/// Escapes the separators of layers and options: Documentation/filesystems/overlayfs.rst.
fn escape(path: &Path) -> Vec<u8> {
    let mut escaped = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

/// Makes `new` the root and detaches the old one with every mount below it.
pub(crate) fn replace_root(new: &Path) -> io::Result<()> {
    rustix::process::chdir(new)?;
    // With the same directory for both, the old root is mounted on top of the new one: pivot_root(2).
    rustix::process::pivot_root(c".", c".")?;
    rustix::mount::unmount(c".", rustix::mount::UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir(c"/")?)
}

/// Opens a directory as the root of lookups.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Makes a mount writable again. Works for mounts made here, but not for flags locked by the host:
/// `mount_namespaces(7)`.
pub(crate) fn unseal(mount: BorrowedFd<'_>) -> io::Result<()> {
    change(mount, Change { clear: libc::MOUNT_ATTR_RDONLY, ..Change::default() }, false)
}
