//! What a database stands on: a directory, reached without ever following a link, or nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::rows::Inode;
use crate::change::LayerError;

#[derive(Debug)]
pub(crate) enum Base {
    Nothing,
    Dir { fd: OwnedFd, path: PathBuf },
}

impl Base {
    pub(crate) fn open(path: &Path) -> Result<Self, LayerError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = sys::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| LayerError::Io { path: path.to_owned(), source: error.into() })?;
        Ok(Self::Dir { fd, path: path.to_owned() })
    }

    /// What is at a path; `None` when nothing is.
    pub(crate) fn stat(&self, at: &Path) -> Result<Option<Inode>, LayerError> {
        let Some(found) = self.look(at, OFlags::PATH | OFlags::NOFOLLOW)? else { return Ok(None) };
        let stat = sys::fstat(found).map_err(|error| self.error(at, error))?;
        Ok(Some(inode(&stat)))
    }

    /// The same number for all names of a file that has several. It never is that of an inode of
    /// the database.
    pub(crate) fn number(&self, at: &Path) -> Result<Option<u64>, LayerError> {
        let Some(found) = self.look(at, OFlags::PATH | OFlags::NOFOLLOW)? else { return Ok(None) };
        let stat = sys::fstat(found).map_err(|error| self.error(at, error))?;
        let several = stat.st_nlink > 1 && stat.st_mode & super::rows::TYPE != super::rows::DIR;
        Ok(several.then_some(stat.st_ino | 1 << 63))
    }

    /// The names in a directory.
    pub(crate) fn list(&self, at: &Path) -> Result<Vec<OsString>, LayerError> {
        let Some(dir) = self.look(at, OFlags::RDONLY | OFlags::DIRECTORY)? else {
            return Ok(Vec::new());
        };
        let entries = sys::Dir::new(dir).map_err(|error| self.error(at, error))?;
        let mut names = Vec::new();
        for entry in entries {
            let name =
                entry.map_err(|error| self.error(at, error))?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Where a link points.
    pub(crate) fn read_link(&self, at: &Path) -> Result<OsString, LayerError> {
        let link = self.must(at, OFlags::PATH | OFlags::NOFOLLOW)?;
        let target =
            sys::readlinkat(link, "", Vec::new()).map_err(|error| self.error(at, error))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// A regular file.
    pub(crate) fn file(&self, at: &Path) -> Result<File, LayerError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.must(at, flags)?;
        let stat = sys::fstat(&file).map_err(|error| self.error(at, error))?;
        if stat.st_mode & super::rows::TYPE != super::rows::FILE {
            return Err(self.error(at, Errno::INVAL));
        }
        Ok(file.into())
    }

    /// The extended attributes of an entry that is no link, with their values.
    pub(crate) fn xattrs(&self, at: &Path) -> Result<Vec<(OsString, Vec<u8>)>, LayerError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        match self.look(at, flags) {
            Ok(Some(file)) => super::content::xattrs(&file).map_err(|error| self.error(at, error)),
            // A link or a device cannot be opened like this, and holds no attribute of a user.
            Ok(None) | Err(_) => Ok(Vec::new()),
        }
    }

    fn must(&self, at: &Path, flags: OFlags) -> Result<OwnedFd, LayerError> {
        self.look(at, flags)?.ok_or_else(|| self.error(at, Errno::NOENT))
    }

    fn look(&self, at: &Path, flags: OFlags) -> Result<Option<OwnedFd>, LayerError> {
        let Self::Dir { fd, .. } = self else { return Ok(None) };
        let below = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match sys::openat2(fd, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(self.error(at, error)),
        }
    }

    fn error(&self, at: &Path, error: Errno) -> LayerError {
        let path = match self {
            Self::Dir { path, .. } => path.join(at),
            Self::Nothing => at.to_owned(),
        };
        LayerError::Io { path, source: io::Error::from(error) }
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
