//! Base of a database: a directory, another database, or nothing.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self as sys, AtFlags};

use super::rows::Inode;
use super::{Database, damaged};
use crate::change::LayerError;
use crate::store::{BASE, LOWER};
use crate::tree::{Base as Lower, Content, Directory};

/// Maximum number of databases stacked on each other.
const DEEPEST: usize = 64;

#[derive(Debug)]
pub(crate) enum Base {
    Nothing,
    Dir { dir: Directory, path: PathBuf },
    Database(Box<Database>),
}

/// Entry of a base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseEntry {
    pub(crate) inode: Inode,
    /// Inode number that programs see, equal for all names of the file.
    pub(crate) number: u64,
}

impl Base {
    /// Opens the base at a path; `depth` databases are above it.
    pub(crate) fn open(path: &Path, depth: usize) -> Result<Self, LayerError> {
        let io = |source| LayerError::Io { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(io)?.is_file() {
            if depth >= DEEPEST {
                return Err(damaged("more than 64 databases are stacked on each other"));
            }
            return Ok(Self::Database(Box::new(Database::open_above(path, depth + 1)?)));
        }
        let dir = Directory::open(path).map_err(io)?;
        Ok(Self::Dir { dir, path: path.to_owned() })
    }

    /// Returns the inode at a path, or `None` if there is none.
    pub(crate) fn stat(&self, at: &Path) -> Result<Option<Inode>, LayerError> {
        Ok(self.entry(at)?.map(|found| found.inode))
    }

    /// Returns the entry at a path, or `None` if there is none.
    pub(crate) fn entry(&self, at: &Path) -> Result<Option<BaseEntry>, LayerError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Dir { dir, .. } => match dir.stat(at) {
                Ok(stat) => {
                    Ok(Some(BaseEntry { inode: from_store(&stat.inode), number: stat.ino }))
                }
                Err(error) if is_missing(&error) => Ok(None),
                Err(error) => Err(self.error(at, error)),
            },
            Self::Database(lower) => {
                let found = lower.find(at)?;
                found
                    .map(|spot| Ok(BaseEntry { inode: spot.inode, number: lower.number(&spot)? }))
                    .transpose()
            }
        }
    }

    /// Returns the names in a directory.
    pub(crate) fn list(&self, at: &Path) -> Result<Vec<OsString>, LayerError> {
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::Dir { dir, .. } => match dir.list(at) {
                Ok(listed) => Ok(listed.into_iter().map(|entry| entry.name).collect()),
                Err(error) if is_missing(&error) => Ok(Vec::new()),
                Err(error) => Err(self.error(at, error)),
            },
            Self::Database(lower) => {
                let spots = lower.find(at)?.map(|spot| lower.list(&spot)).transpose()?;
                let names = spots.into_iter().flatten();
                Ok(names.filter_map(|spot| Some(spot.path.file_name()?.to_owned())).collect())
            }
        }
    }

    /// Returns the target of a link.
    pub(crate) fn read_link(&self, at: &Path) -> Result<OsString, LayerError> {
        match self {
            Self::Nothing => Err(self.missing(at)),
            Self::Dir { dir, .. } => dir.target(at).map_err(|error| self.error(at, error)),
            Self::Database(lower) => {
                lower.link_target(&lower.find(at)?.ok_or_else(|| self.missing(at))?)
            }
        }
    }

    /// Opens the content of a regular file.
    pub(crate) fn content(&self, at: &Path) -> Result<Box<dyn Read + Send>, LayerError> {
        match self {
            Self::Nothing => Err(self.missing(at)),
            Self::Dir { dir, .. } => {
                let content = dir.open(at).map_err(|error| self.error(at, error))?;
                Ok(Box::new(Forward { content, offset: 0 }))
            }
            Self::Database(lower) => lower.read(&lower.find(at)?.ok_or_else(|| self.missing(at))?),
        }
    }

    /// Returns the extended attributes of an entry, with their values.
    pub(crate) fn xattrs(&self, at: &Path) -> Result<Vec<(OsString, Vec<u8>)>, LayerError> {
        match self {
            Self::Nothing => Err(self.missing(at)),
            Self::Dir { dir, .. } => dir.xattrs(at).map_err(|error| self.error(at, error)),
            Self::Database(lower) => {
                lower.attributes(&lower.find(at)?.ok_or_else(|| self.missing(at))?)
            }
        }
    }

    fn missing(&self, at: &Path) -> LayerError {
        self.error(at, io::ErrorKind::NotFound.into())
    }

    fn error(&self, at: &Path, source: io::Error) -> LayerError {
        let path = match self {
            Self::Dir { path, .. } => path.join(at),
            Self::Nothing | Self::Database(_) => at.to_owned(),
        };
        LayerError::Io { path, source }
    }
}

/// Converts an inode number of the base to its form in `sandbox_origin`.
pub(crate) fn origin_key(number: u64) -> i64 {
    let key = if number & BASE == 0 { number | BASE | LOWER } else { number };
    key.cast_signed()
}

/// Returns true when a path does not exist; a link in the middle of it counts as missing.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Sequential reader.
struct Forward {
    content: Arc<dyn Content>,
    offset: u64,
}

impl Read for Forward {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read_at(buffer, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

fn from_store(inode: &crate::store::Inode) -> Inode {
    Inode {
        mode: inode.mode,
        links: inode.nlink.into(),
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        mtime: (inode.mtime.sec, inode.mtime.nsec),
        device: inode.rdev,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "the widths differ by architecture; nanoseconds and sizes fit"
)]
fn inode(stat: &sys::Stat) -> Inode {
    Inode {
        mode: stat.st_mode as u32,
        links: stat.st_nlink as u64,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        device: stat.st_rdev as u64,
    }
}

/// Returns the inode of an open file.
pub(crate) fn stat_of(fd: &impl rustix::fd::AsFd) -> io::Result<Inode> {
    Ok(inode(&sys::fstat(fd)?))
}

/// Returns the inode of an entry in an open directory, with device and inode number. Follows no
/// link.
pub(crate) fn stat_at(dir: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<(Inode, (u64, u64))> {
    let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    #[allow(clippy::unnecessary_cast, reason = "the widths differ by architecture")]
    Ok((inode(&stat), (stat.st_dev as u64, stat.st_ino as u64)))
}
