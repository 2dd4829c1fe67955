//! Directory as the source. Symlinks are transferred and never followed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, CWD, Mode, OFlags};

use super::{Item, Sink, TransferError, Watch};
use crate::RelPath;
use crate::database::content::xattrs;
use crate::database::{stat_at, stat_of};

/// Sends everything below a directory.
pub fn from_dir(
    path: &Path,
    sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = sys::openat(CWD, path, flags, Mode::empty())
        .map_err(|error| TransferError::reading(path)(error.into()))?;
    sink.root(&stat_of(&root).map_err(TransferError::reading(path))?)?;
    let mut walk = Walk { top: path, sink, watch, numbers: BTreeMap::new() };
    let mut left = vec![(PathBuf::new(), root)];
    while let Some((at, dir)) = left.pop() {
        walk.dir(&at, &dir, &mut left)?;
    }
    Ok(())
}

struct Walk<'w, 's> {
    top: &'w Path,
    sink: &'w mut dyn Sink,
    watch: &'w mut Watch<'s>,
    /// Numbers for files with several names, by device and inode.
    numbers: BTreeMap<(u64, u64), u64>,
}

impl Walk<'_, '_> {
    fn dir(
        &mut self,
        at: &Path,
        dir: &OwnedFd,
        left: &mut Vec<(PathBuf, OwnedFd)>,
    ) -> Result<(), TransferError> {
        for name in names(dir).map_err(TransferError::reading(&self.top.join(at)))? {
            let path = at.join(&name);
            let whole = self.top.join(&path);
            if let Some(below) =
                self.entry(&path, dir, &name).map_err(|error| error.named(&whole))?
            {
                left.push((path, below));
            }
        }
        Ok(())
    }

    /// Sends one entry. Returns a directory as an open descriptor.
    fn entry(
        &mut self,
        path: &Path,
        dir: &OwnedFd,
        name: &OsStr,
    ) -> Result<Option<OwnedFd>, TransferError> {
        let reading = || TransferError::reading(path);
        let (mut inode, number) = stat_at(dir, name).map_err(reading())?;
        let mut file = None;
        if inode.is_dir() || inode.is_file() {
            let kind = if inode.is_dir() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
            let opened = sys::openat(dir, name, flags, Mode::empty())
                .map_err(|error| reading()(error.into()))?;
            // Use the attributes of the opened file, which may have been replaced since it was listed.
            inode = stat_of(&opened).map_err(reading())?;
            file = Some(opened);
        }
        let target = if inode.is_symlink() {
            let target =
                sys::readlinkat(dir, name, Vec::new()).map_err(|error| reading()(error.into()))?;
            Some(OsString::from_vec(target.into_bytes()))
        } else {
            None
        };
        let next = self.numbers.len() as u64;
        let several = inode.links > 1 && !inode.is_dir();
        let same = several.then(|| *self.numbers.entry(number).or_insert(next));
        let attributes = file.as_ref().map(xattrs).transpose();
        let item = Item {
            path: RelPath::new(path)
                .ok_or(TransferError::Refused { path: path.to_owned(), what: "invalid path" })?,
            inode,
            target,
            same,
            xattrs: attributes.map_err(|error| reading()(error.into()))?.unwrap_or_default(),
        };
        if inode.is_dir() {
            self.watch.hand(self.sink, &item, None)?;
            return Ok(file);
        }
        let content = file.filter(|_| inode.is_file());
        let content = content.map(|file| Box::new(File::from(file)) as Box<dyn Read>);
        self.watch.hand(self.sink, &item, content)?;
        Ok(None)
    }
}

fn names(dir: &OwnedFd) -> std::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in sys::Dir::read_from(dir)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
