//! Single writes on the host. Each is prepared under a temporary name in the same directory and exchanged with the
//! entry at the path. An unexpected replaced entry is moved back.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    self, AtFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::ApplyError;
use super::step::{Goal, Original};
use crate::RelPath;
use crate::diff::Digest;
use crate::host::{self, HostEntry, HostTree, Kind, Stamp};
use sandbox_linux::raw::Raw;

/// Block size of the sparse copy. Blocks of zeros become holes.
const BLOCK: usize = 64 * 1024;
/// Extended attributes that belong to a file: ACLs and user attributes. Others belong to the system.
const KEPT_XATTRS: [&[u8]; 2] = [b"user.", b"system.posix_acl_access"];

/// Time at which a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Directly after it is written.
    Each,
    /// By the caller, for many files together, before the first is put in place.
    Together,
}

/// Attributes that a file gets.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    /// Permission bits. `None` for those of a new file.
    pub(crate) mode: Option<u32>,
    /// Upper limit of the permission bits of a new file or directory.
    pub(crate) limit: Option<u32>,
    /// True when a new file is executable.
    pub(crate) executable: bool,
    /// Owner and group, set only as root.
    pub(crate) owner: (u32, u32),
    /// Extended attributes.
    pub(crate) xattrs: Vec<(Raw, Raw)>,
    /// Modification time. `None` for now.
    pub(crate) mtime: Option<(i64, u32)>,
}

/// Returns everything that is needed to restore a path.
pub(crate) fn original(host: &HostTree, path: &RelPath) -> Result<Option<Original>, ApplyError> {
    let failed = |error| ApplyError::at(path, error);
    let Some(found) = host.stat(path).map_err(failed)? else { return Ok(None) };
    let mut was = Original {
        kind: found.kind,
        stamp: found.stamp,
        mode: found.mode,
        uid: found.uid,
        gid: found.gid,
        digest: None,
        target: None,
        xattrs: Vec::new(),
        links: found.links,
    };
    match found.kind {
        Kind::File => {
            let (mut file, opened) = host.open_file(path).map_err(failed)?;
            was.digest = Some(Digest::read(&mut file).map_err(failed)?);
            was.xattrs = xattrs(&file).map_err(failed)?;
            let after = HostEntry::from(fs::fstat(&file).map_err(|errno| failed(errno.into()))?);
            if opened.stamp != found.stamp || after.stamp != found.stamp {
                return Err(ApplyError::Raced { path: path.as_path().to_path_buf() });
            }
        }
        Kind::Symlink => was.target = Some(host.read_link(path).map_err(failed)?.into()),
        Kind::Dir | Kind::Special => {}
    }
    Ok(Some(was))
}

/// Returns true when the path is in the state before a step.
pub(crate) fn is_before(
    host: &HostTree,
    path: &RelPath,
    before: Option<&Original>,
) -> Result<bool, ApplyError> {
    let now = host.stat(path).map_err(|error| ApplyError::at(path, error))?;
    let (Some(before), Some(now)) = (before, &now) else {
        return Ok(before.is_none() && now.is_none());
    };
    if before.kind != now.kind {
        return Ok(false);
    }
    match before.kind {
        Kind::Dir => Ok(true),
        _ if before.stamp == now.stamp => Ok(true),
        Kind::File if before.stamp.size != now.stamp.size => Ok(false),
        Kind::Symlink => Ok(before.target == original(host, path)?.and_then(|was| was.target)),
        _ => Ok(before.mode & 0o100 == now.mode & 0o100
            && before.digest == original(host, path)?.and_then(|was| was.digest)),
    }
}

/// Returns true when the path is in the state after a step.
pub(crate) fn is_after(
    host: &HostTree,
    path: &RelPath,
    after: Option<&Goal>,
) -> Result<bool, ApplyError> {
    let now = host.stat(path).map_err(|error| ApplyError::at(path, error))?;
    let (Some(after), Some(now)) = (after, &now) else {
        return Ok(after.is_none() && now.is_none());
    };
    match (after, now.kind) {
        (Goal::Dir, Kind::Dir) => Ok(true),
        (Goal::Symlink { target }, Kind::Symlink) => {
            Ok(original(host, path)?.and_then(|was| was.target).as_ref() == Some(target))
        }
        (Goal::File { digest, size, executable, .. }, Kind::File) => Ok(*size == now.stamp.size
            && *executable == now.is_executable()
            && original(host, path)?.and_then(|was| was.digest) == Some(*digest)),
        _ => Ok(false),
    }
}

/// Writes a file under an unused name and returns the hash of its content.
pub(crate) fn write_temp(
    dir: &OwnedFd,
    temp: &OsStr,
    content: &mut dyn Read,
    attributes: &Attributes,
    sync: Sync,
) -> io::Result<Digest> {
    // The owner must be able to read it, because the next command compares its content with the journal.
    let limit = attributes.limit.unwrap_or(0o777) | 0o400;
    let mode = match attributes.mode {
        Some(_) => 0o600,
        None if attributes.executable => 0o777 & limit,
        None => 0o666 & limit,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(fs::openat(dir, temp, flags, Mode::from_raw_mode(mode))?);
    let digest = copy_sparse(content, &mut file)?;
    set_attributes(&file, attributes)?;
    if sync == Sync::Each {
        file.sync_all()?;
    }
    Ok(digest)
}

/// Copies a file and leaves holes for zeros.
fn copy_sparse(from: &mut dyn Read, to: &mut File) -> io::Result<Digest> {
    let (mut hash, mut buffer, mut length) = (Sha256::new(), vec![0; BLOCK], 0_u64);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let block = &buffer[..count];
        hash.update(block);
        length += count as u64;
        if block.iter().all(|byte| *byte == 0) {
            to.seek(SeekFrom::Start(length))?;
        } else {
            to.write_all(block)?;
        }
    }
    to.set_len(length)?;
    Ok(Digest(hash.finalize().into()))
}

/// Sets the attributes of a file. The owner comes first because changing it clears set-id bits (chown(2)), then
/// attributes, mode and time.
fn set_attributes(file: &File, attributes: &Attributes) -> io::Result<()> {
    set_owner(file, attributes.owner)?;
    for (name, value) in &attributes.xattrs {
        // An attribute that the filesystem does not support is not an error.
        let _ = fs::fsetxattr(file, name.as_os_str(), &value.0, XattrFlags::empty());
    }
    if let Some(mode) = attributes.mode {
        fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    if let Some(mtime) = attributes.mtime {
        fs::futimens(file, &times(mtime))?;
    }
    Ok(())
}

/// As root, sets the owner to that of the directory or of the replaced file.
fn set_owner(file: impl AsFd, (uid, gid): (u32, u32)) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

pub(crate) fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let access = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
    Timestamps {
        last_access: access,
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    }
}

/// Creates a link under an unused name.
pub(crate) fn link_temp(
    dir: &OwnedFd,
    temp: &OsStr,
    target: &OsStr,
    attributes: &Attributes,
) -> io::Result<()> {
    fs::symlinkat(target, dir, temp)?;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(attributes.owner.0), Gid::from_raw(attributes.owner.1));
        fs::chownat(dir, temp, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(mtime) = attributes.mtime {
        fs::utimensat(dir, temp, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Creates a directory. It is prepared as `temp`, so that it never has its name without its owner and mode.
pub(crate) fn make_dir(
    dir: &OwnedFd,
    temp: &OsStr,
    name: &OsStr,
    attributes: &Attributes,
) -> io::Result<()> {
    prepared_dir(dir, temp, attributes)?;
    match fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE) {
        // Without RENAME_NOREPLACE, only mkdir(2) never replaces an entry.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::unlinkat(dir, temp, AtFlags::REMOVEDIR)?;
            prepared_dir(dir, name, attributes)
        }
        done => Ok(done?),
    }
}

fn prepared_dir(dir: &OwnedFd, name: &OsStr, attributes: &Attributes) -> io::Result<()> {
    // The owner must be able to write to it, because its entries follow.
    let mode = attributes.limit.unwrap_or(0o777) | 0o700;
    fs::mkdirat(dir, name, Mode::from_raw_mode(mode))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = fs::openat(dir, name, flags, Mode::empty())?;
    set_owner(&opened, attributes.owner)?;
    if let Some(mode) = attributes.mode {
        fs::fchmod(&opened, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Replaces `name` with the file prepared as `temp`. If the entry there is not `expected`, changes nothing.
pub(crate) fn put(
    dir: &OwnedFd,
    temp: &OsStr,
    name: &OsStr,
    expected: Option<&Stamp>,
) -> io::Result<()> {
    let Some(expected) = expected else {
        return match fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE) {
            // Without RENAME_NOREPLACE, link(2) does the same, because it never replaces an entry.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::linkat(dir, temp, dir, name, AtFlags::empty())?;
                Ok(fs::unlinkat(dir, temp, AtFlags::empty())?)
            }
            done => Ok(done?),
        };
    };
    match fs::renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            if !is_unchanged(dir, name, expected)? {
                return Err(raced());
            }
            return Ok(fs::renameat(dir, temp, dir, name)?);
        }
        done => done?,
    }
    if !is_unchanged(dir, temp, expected)? {
        fs::renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE)?;
        return Err(raced());
    }
    Ok(fs::unlinkat(dir, temp, AtFlags::empty())?)
}

/// Removes a file or a link, if it is the expected one.
pub(crate) fn take(dir: &OwnedFd, name: &OsStr, temp: &OsStr, expected: &Stamp) -> io::Result<()> {
    match fs::renameat_with(dir, name, dir, temp, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            if !is_unchanged(dir, name, expected)? {
                return Err(raced());
            }
            return Ok(fs::unlinkat(dir, name, AtFlags::empty())?);
        }
        done => done?,
    }
    if !is_unchanged(dir, temp, expected)? {
        fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE)?;
        return Err(raced());
    }
    Ok(fs::unlinkat(dir, temp, AtFlags::empty())?)
}

/// Returns true for an unchanged file. Ignores ctime, which a rename changes.
fn is_unchanged(dir: &OwnedFd, name: &OsStr, expected: &Stamp) -> io::Result<bool> {
    let found = host::stat_at(dir, name)?;
    Ok(found.is_some_and(|found| {
        let Stamp { ino, size, mtime, .. } = found.stamp;
        (ino, size, mtime) == (expected.ino, expected.size, expected.mtime)
    }))
}

/// Returns the error of a path that another process changed.
pub(crate) fn raced() -> io::Error {
    io::Error::other("changed by another process")
}

fn xattrs(file: &File) -> io::Result<Vec<(Raw, Raw)>> {
    let mut names = vec![0; 64 * 1024];
    let length = match fs::flistxattr(file, &mut names) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        found => found?,
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0) {
        if KEPT_XATTRS.iter().any(|kept| name.starts_with(kept)) {
            let name = Raw(name.to_vec());
            let mut value = vec![0; 64 * 1024];
            let length = fs::fgetxattr(file, name.as_os_str(), &mut value)?;
            value.truncate(length);
            found.push((name, Raw(value)));
        }
    }
    Ok(found)
}
