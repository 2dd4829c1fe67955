//! What a database stands on: a directory, another database, or nothing.

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

/// As many databases may stand on each other.
const DEEPEST: usize = 64;

#[derive(Debug)]
pub(crate) enum Base {
    Nothing,
    Dir { dir: Directory, path: PathBuf },
    Database(Box<Database>),
}

/// What a base says about a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseEntry {
    pub(crate) inode: Inode,
    /// The number that the file shows, the same for all its names.
    pub(crate) number: u64,
}

impl Base {
    /// Opens what lies at a path; `depth` databases stand above it.
    pub(crate) fn open(path: &Path, depth: usize) -> Result<Self, LayerError> {
        let io = |source| LayerError::Io { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(io)?.is_file() {
            if depth >= DEEPEST {
                return Err(damaged("databases stand on each other without end"));
            }
            return Ok(Self::Database(Box::new(Database::open_above(path, depth + 1)?)));
        }
        let dir = Directory::open(path).map_err(io)?;
        Ok(Self::Dir { dir, path: path.to_owned() })
    }

    /// What is at a path; `None` when nothing is.
    pub(crate) fn stat(&self, at: &Path) -> Result<Option<Inode>, LayerError> {
        Ok(self.look(at)?.map(|found| found.inode))
    }

    /// The same, with its number.
    pub(crate) fn look(&self, at: &Path) -> Result<Option<BaseEntry>, LayerError> {
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

    /// The names in a directory.
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

    /// Where a link points.
    pub(crate) fn read_link(&self, at: &Path) -> Result<OsString, LayerError> {
        match self {
            Self::Nothing => Err(self.missing(at)),
            Self::Dir { dir, .. } => dir.target(at).map_err(|error| self.error(at, error)),
            Self::Database(lower) => {
                lower.link_target(&lower.find(at)?.ok_or_else(|| self.missing(at))?)
            }
        }
    }

    /// The content of a regular file.
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

    /// The extended attributes of an entry, with their values.
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

/// How `sandbox_origin` writes the number of a file of the base.
pub(crate) fn origin_key(number: u64) -> i64 {
    let key = if number & BASE == 0 { number | BASE | LOWER } else { number };
    key.cast_signed()
}

/// A link in the middle of a path is no directory of ours.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Reads from the beginning to the end.
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

/// What an open file is.
pub(crate) fn stat_of(fd: &impl rustix::fd::AsFd) -> io::Result<Inode> {
    Ok(inode(&sys::fstat(fd)?))
}

/// What an entry of an open directory is; a link is not followed.
pub(crate) fn stat_at(dir: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<(Inode, (u64, u64))> {
    let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    #[allow(clippy::unnecessary_cast, reason = "the widths differ by architecture")]
    Ok((inode(&stat), (stat.st_dev as u64, stat.st_ino as u64)))
}
