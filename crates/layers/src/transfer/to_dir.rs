//! Directory as the destination. It is new or empty, and every write is relative to an open directory below it, so a
//! symlink that another process creates is not followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as sys, AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};

use super::{Item, SET_ID, Sink, TransferError};
use crate::database::Inode;

/// Writer of a directory tree.
pub struct ToDir {
    path: PathBuf,
    root: OwnedFd,
    own: Option<Inode>,
    /// Directories, which get their mode and time after their content is complete.
    dirs: Vec<Item>,
    first: HashMap<u64, PathBuf>,
    as_root: bool,
}

impl ToDir {
    /// Creates the directory, or uses an empty one.
    pub fn new(path: &Path) -> Result<Self, TransferError> {
        let io = |error: rustix::io::Errno| TransferError::writing(path)(error.into());
        match sys::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(io(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let exists = |_| TransferError::Exists(path.to_owned());
        let root = sys::openat(CWD, path, flags, Mode::empty()).map_err(exists)?;
        let mut entries = sys::Dir::read_from(&root).map_err(io)?;
        if entries.any(|entry| {
            entry.is_ok_and(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        }) {
            return Err(TransferError::Exists(path.to_owned()));
        }
        let as_root = sandbox_linux::process::uid() == 0;
        Ok(Self {
            path: path.to_owned(),
            root,
            own: None,
            dirs: Vec::new(),
            first: HashMap::new(),
            as_root,
        })
    }

    /// Opens the parent of a path, and returns it with the last name.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok((self.dir(parent)?, name))
    }

    fn dir(&self, path: &Path) -> io::Result<OwnedFd> {
        let below = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(sys::openat2(&self.root, below, flags, Mode::empty(), resolve)?)
    }

    fn link(&self, first: &Path, new: &Path) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.parent(first)?, self.parent(new)?);
        Ok(sys::linkat(&from, old, &to, new, AtFlags::empty())?)
    }

    fn file(&self, item: &Item, content: &mut dyn Read) -> io::Result<()> {
        let (dir, name) = self.parent(item.path.as_path())?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(sys::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR)?);
        copy(content, &mut file, item.inode.size)?;
        self.settle(&file, item)
    }

    fn symlink(&self, item: &Item, target: &OsStr) -> io::Result<()> {
        let (dir, name) = self.parent(item.path.as_path())?;
        sys::symlinkat(target, &dir, name)?;
        if self.as_root {
            let (uid, gid) = owner(&item.inode);
            sys::chownat(&dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(sys::utimensat(&dir, name, &times(&item.inode), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets owner, attributes, mode and time, in an order in which none reverts another.
    fn settle(&self, file: &impl rustix::fd::AsFd, item: &Item) -> io::Result<()> {
        for (name, value) in &item.xattrs {
            // The others belong to the system: capabilities, labels, marks of other overlays.
            if name.as_encoded_bytes().starts_with(b"user.")
                && !name.as_encoded_bytes().starts_with(b"user.overlay.")
            {
                match sys::fsetxattr(file, name.as_os_str(), value, XattrFlags::empty()) {
                    Err(rustix::io::Errno::NOTSUP) | Ok(()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.finish_inode(file, &item.inode)
    }

    fn finish_inode(&self, file: &impl rustix::fd::AsFd, inode: &Inode) -> io::Result<()> {
        if self.as_root {
            let (uid, gid) = owner(inode);
            sys::fchown(file, Some(uid), Some(gid))?;
        }
        sys::fchmod(file, Mode::from_raw_mode(inode.mode & 0o7777 & !SET_ID))?;
        Ok(sys::futimens(file, &times(inode))?)
    }
}

impl Sink for ToDir {
    fn root(&mut self, inode: &Inode) -> Result<(), TransferError> {
        self.own = Some(*inode);
        Ok(())
    }

    fn put(&mut self, item: &Item, content: Option<&mut dyn Read>) -> Result<(), TransferError> {
        let path = item.path.as_path();
        let shown = self.path.join(path);
        let done = |result: io::Result<()>| result.map_err(TransferError::writing(&shown));
        if let Some(first) = item.same.and_then(|same| self.first.get(&same)) {
            return done(self.link(first, path));
        }
        match (content, &item.target) {
            (Some(content), _) => done(self.file(item, content))?,
            (None, Some(target)) => done(self.symlink(item, target))?,
            (None, None) if item.inode.is_dir() => {
                done(
                    self.parent(path)
                        .and_then(|(dir, name)| Ok(sys::mkdirat(&dir, name, Mode::RWXU)?)),
                )?;
                self.dirs.push(item.clone());
            }
            (None, None) => {
                return Err(TransferError::refused(item, "it is a pipe, a socket or a device"));
            }
        }
        if let Some(same) = item.same {
            self.first.insert(same, path.to_owned());
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TransferError> {
        for item in self.dirs.iter().rev() {
            let shown = self.path.join(item.path.as_path());
            self.dir(item.path.as_path())
                .and_then(|dir| self.settle(&dir, item))
                .map_err(TransferError::writing(&shown))?;
        }
        match &self.own {
            Some(own) => {
                self.finish_inode(&self.root, own).map_err(TransferError::writing(&self.path))
            }
            None => Ok(()),
        }
    }
}

/// Copies content and leaves holes for zeros.
fn copy(content: &mut dyn Read, file: &mut File, size: u64) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = content.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        if buffer[..length].iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(i64::try_from(length).unwrap_or(0)))?;
        } else {
            file.write_all(&buffer[..length])?;
        }
    }
    file.set_len(size)
}

fn owner(inode: &Inode) -> (Uid, Gid) {
    (Uid::from_raw(inode.uid), Gid::from_raw(inode.gid))
}

fn times(inode: &Inode) -> Timestamps {
    let time = Timespec { tv_sec: inode.mtime.0, tv_nsec: inode.mtime.1.into() };
    Timestamps { last_access: time, last_modification: time }
}
