//! Merges a stack of layers into one, for a snapshot of a running session and to limit the depth of the stack.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::stack::Stack;
use super::upper::Attribute;
use crate::RelPath;
use crate::change::{Layer, LayerEntry, LayerError, Meta, Node};

/// Writes the content of a stack into an empty directory, as one layer. Preserves whiteouts and opaque directories.
pub fn flatten(stack: &Stack, to: &Path) -> Result<(), LayerError> {
    let mut copy = Copy { stack, to, links: HashMap::new() };
    let entries = stack.entries()?;
    for entry in &entries {
        copy.entry(entry).map_err(|source| failed(to, &entry.path, source))?;
    }
    // Times come last, and children before parents, because writing into a directory changes its times.
    for LayerEntry { path, node } in entries.iter().rev() {
        if let Node::Dir { meta, .. } = node {
            let done = copy.finish_dir(path, *meta);
            done.map_err(|source| failed(to, path, source))?;
        }
    }
    Ok(())
}

fn failed(to: &Path, path: &RelPath, source: io::Error) -> LayerError {
    LayerError::Io { path: to.join(path.as_path()), source }
}

struct Copy<'c> {
    stack: &'c Stack,
    to: &'c Path,
    /// First copy of each file with several names, by layer and inode.
    links: HashMap<(usize, u64), PathBuf>,
}

impl Copy<'_> {
    fn entry(&mut self, entry: &LayerEntry) -> io::Result<()> {
        let (dir, name) = self.place(&entry.path)?;
        match &entry.node {
            Node::Gone => Ok(fs::mknodat(&dir, name, FileType::CharacterDevice, Mode::empty(), 0)?),
            Node::Dir { opaque, .. } => self.dir(&dir, name, &entry.path, *opaque),
            Node::File { meta, .. } => self.file(&dir, name, &entry.path, *meta),
            Node::Symlink { meta, target } => {
                fs::symlinkat(target, &dir, name)?;
                own(&dir, name, *meta)?;
                stamp(&dir, name, *meta)
            }
            Node::Special { meta } => {
                let kind = FileType::from_raw_mode(meta.mode);
                fs::mknodat(&dir, name, kind, Mode::from_raw_mode(meta.mode & 0o7777), 0)?;
                stamp(&dir, name, *meta)
            }
        }
    }

    /// Opens the copy of a path's parent directory, and returns it with the last name.
    fn place<'p>(&self, path: &'p RelPath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut here = fs::open(self.to, flags, Mode::empty())?;
        let name = path.as_path().file_name().ok_or(Errno::INVAL)?;
        for part in path.as_path().parent().into_iter().flatten() {
            here = fs::openat(&here, part, flags, Mode::empty())?;
        }
        Ok((here, name))
    }

    fn dir(&self, dir: &OwnedFd, name: &OsStr, path: &RelPath, opaque: bool) -> io::Result<()> {
        // Accessible to its owner until it is complete.
        fs::mkdirat(dir, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = fs::openat(dir, name, flags, Mode::empty())?;
        if opaque {
            fs::fsetxattr(&made, c"user.overlay.opaque", b"y", XattrFlags::empty())?;
        }
        copy_attributes(&self.stack.raw_attributes(path)?, &made);
        Ok(())
    }

    fn finish_dir(&self, path: &RelPath, meta: Meta) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        own(&dir, name, meta)?;
        fs::chmodat(&dir, name, Mode::from_raw_mode(meta.mode), AtFlags::empty())?;
        stamp(&dir, name, meta)
    }

    fn file(&mut self, dir: &OwnedFd, name: &OsStr, path: &RelPath, meta: Meta) -> io::Result<()> {
        let (from, identity) = self.stack.source(path)?;
        if meta.links > 1 {
            if let Some(first) = self.links.get(&identity) {
                let first = RelPath::new(first).ok_or(Errno::INVAL)?;
                let (old, old_name) = self.place(&first)?;
                return Ok(fs::linkat(&old, old_name, dir, name, AtFlags::empty())?);
            }
            self.links.insert(identity, path.as_path().to_path_buf());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
        if fs::ioctl_ficlone(&to, &from).is_err() {
            io::copy(&mut &from, &mut std::fs::File::from(to.try_clone()?))?;
        }
        copy_attributes(&self.stack.raw_attributes(path)?, &to);
        own(dir, name, meta)?;
        fs::fchmod(&to, Mode::from_raw_mode(meta.mode))?;
        stamp(dir, name, meta)
    }
}

/// Sets the owner. Only root can, and only root encounters files of other users.
fn own(dir: &OwnedFd, name: &OsStr, meta: Meta) -> io::Result<()> {
    if sandbox_linux::process::uid() != 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    Ok(fs::chownat(dir, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn stamp(dir: &OwnedFd, name: &OsStr, meta: Meta) -> io::Result<()> {
    let time = Timespec { tv_sec: meta.mtime.0, tv_nsec: meta.mtime.1.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Sets attributes. Attributes that the file system does not support are left out, such as ACLs.
fn copy_attributes(attributes: &[Attribute], to: &OwnedFd) {
    for (name, value) in attributes {
        let _ = fs::fsetxattr(to, name.as_slice(), value, XattrFlags::empty());
    }
}
