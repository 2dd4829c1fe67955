//! Lookups that stay below one directory, whatever links somebody planted in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// An open directory that lookups do not leave.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
}

/// What a lookup found, held open.
#[derive(Debug)]
pub struct Found {
    fd: OwnedFd,
    /// Where it lies below the root, links followed.
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

    /// Where it really lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks a path up; `None` when there is nothing. See [`Root::is_escape`] for one that leads out.
    pub fn find(&self, below: &Path) -> io::Result<Option<Found>> {
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let fd = loop {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match rustix::fs::openat2(&self.dir, below, flags, Mode::empty(), resolve) {
                Ok(fd) => break fd,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(None),
                // A rename in the tree at the same time: the kernel cannot tell, and asks for another try.
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let real = real(fd.as_fd())?;
        let below = real.strip_prefix(&self.path).map_err(|_| io::Error::from(Errno::XDEV))?;
        Ok(Some(Found { below: below.to_owned(), fd }))
    }

    /// Whether a lookup failed because it would have left the directory.
    pub fn is_escape(error: &io::Error) -> bool {
        [Errno::XDEV, Errno::LOOP]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
}

impl Found {
    /// Makes it this process's working directory.
    pub fn enter(&self) -> io::Result<()> {
        // A descriptor of the kind O_PATH is enough for this.
        Ok(rustix::process::fchdir(&self.fd)?)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> io::Result<bool> {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(&self.fd)?.st_mode) == FileType::Directory)
    }

    /// Opens a file in it for reading, if it is a regular one and no link.
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A pipe says one thing to us and another to whoever opens it next.
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
        }
        Ok(Some(file))
    }
}

fn real(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
