//! Mounts by descriptor: clone a tree, set its flags, put it in its place.

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

/// What a mount forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Device files work.
    pub devices: bool,
}

impl Flags {
    fn bits(self) -> u64 {
        let read_only = if self.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
        let devices = if self.devices { 0 } else { libc::MOUNT_ATTR_NODEV };
        read_only | devices | libc::MOUNT_ATTR_NOSUID
    }
}

/// Opens `path` below `root` without following a single symlink: what was resolved while planning
/// must still be what is there (a link swapped in meanwhile gives `ELOOP`).
pub fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    Ok(rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve)?)
}

/// A detached copy of the mounts at and below an open path.
pub fn clone_tree(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone_with(at, OpenTreeFlags::AT_RECURSIVE)
}

/// A detached copy of the mount at an open path, without what is mounted on it.
pub fn clone_mount(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    clone_with(at, OpenTreeFlags::empty())
}

fn clone_with(at: BorrowedFd<'_>, more: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(at, c"", flags | more)?)
}

/// Sets flags on a mount; `recursive` includes what is mounted below it.
pub fn set_flags(mount: BorrowedFd<'_>, flags: Flags, recursive: bool) -> io::Result<()> {
    change(mount, Change { set: flags.bits(), ..Change::default() }, recursive)
}

/// Seals a mount: nothing in it can be changed any more.
pub fn seal(mount: BorrowedFd<'_>) -> io::Result<()> {
    change(mount, Change { set: libc::MOUNT_ATTR_RDONLY, ..Change::default() }, false)
}

/// Keeps mounts made here from being seen in other namespaces, and the other way round.
pub fn make_private(root: BorrowedFd<'_>) -> io::Result<()> {
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

/// Puts a detached mount on top of an open path.
pub fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", target, c"", flags)?)
}

/// A new, empty file system in memory, not yet attached.
pub fn tmpfs(mode: u32) -> io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", format!("{mode:o}"))?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// A new set of pseudo terminals, not yet attached.
pub fn devpts() -> io::Result<OwnedFd> {
    let context = fsopen(c"devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("ptmxmode", "0666"), ("mode", "620")] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// The processes of our own PID namespace, not yet attached.
pub fn proc() -> io::Result<OwnedFd> {
    let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Mounts a read-only overlay of `upper` over `lower` at `target`. Both are lower layers to the
/// kernel: nothing can be written. `upper` may hide names of `lower` with whiteouts.
pub fn read_only_overlay(upper: &Path, lower: &Path, target: &Path) -> io::Result<()> {
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

/// Mounts an overlay at `target`: `lower`, the topmost first, is only read; changes go to `upper`.
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

/// Escapes what separates layers and options: Documentation/filesystems/overlayfs.rst.
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

/// Makes `new` the root and drops the old one with everything that is mounted below it.
pub fn replace_root(new: &Path) -> io::Result<()> {
    rustix::process::chdir(new)?;
    // The same directory for both: the old root ends up on top of the new one, and goes.
    rustix::process::pivot_root(c".", c".")?;
    rustix::mount::unmount(c".", rustix::mount::UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir(c"/")?)
}

/// Opens a directory for use as a root of look-ups.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a mount for changes again. Works on mounts made here, not on what the host locked.
pub fn unseal(mount: BorrowedFd<'_>) -> io::Result<()> {
    change(mount, Change { clear: libc::MOUNT_ATTR_RDONLY, ..Change::default() }, false)
}
