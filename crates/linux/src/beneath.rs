//! Lookups confined to one directory, even if the tree contains hostile symlinks: openat2(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Open directory that confines lookups.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
}

/// Open result of a lookup.
#[derive(Debug)]
pub struct Opened {
    fd: OwnedFd,
    /// Resolved path relative to the root.
    pub below: PathBuf,
}

impl Root {
    /// Opens a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        let path = real(dir.as_fd())?;
        Ok(Self { dir, path })
    }

    /// Returns the resolved path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks a path up; `None` if it does not exist. See [`Root::is_escape`] for a path that leads outside.
    pub fn find(&self, below: &Path) -> io::Result<Option<Opened>> {
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let fd = loop {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match rustix::fs::openat2(&self.dir, below, flags, Mode::empty(), resolve) {
                Ok(fd) => break fd,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(None),
                // A concurrent rename may have moved the path out, so the kernel asks for a retry: openat2(2).
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let real = real(fd.as_fd())?;
        let below = real.strip_prefix(&self.path).map_err(|_| io::Error::from(Errno::XDEV))?;
        Ok(Some(Opened { below: below.to_owned(), fd }))
    }

    /// Returns true if a lookup failed because it would have left the directory.
    pub fn is_escape(error: &io::Error) -> bool {
        [Errno::XDEV, Errno::LOOP]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
}

impl Opened {
    /// Makes this directory the working directory of the process.
    pub fn enter(&self) -> io::Result<()> {
        // fchdir(2) accepts an O_PATH descriptor.
        Ok(rustix::process::fchdir(&self.fd)?)
    }

    /// Returns true if this is a directory.
    pub fn is_dir(&self) -> io::Result<bool> {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(&self.fd)?.st_mode) == FileType::Directory)
    }

    /// Opens a regular file in this directory for reading; symlinks are refused.
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A FIFO could give us one content and the next reader another.
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        Ok(Some(file))
    }
}

fn real(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
