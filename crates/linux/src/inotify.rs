//! Being told when a name in a directory is made, replaced or removed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Directories that are watched for changes of names.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl Inotify {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches one directory.
    pub fn add(&self, dir: &Path) -> io::Result<()> {
        let flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.0, dir, flags)?;
        Ok(())
    }

    /// Forgets what has happened so far.
    pub fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut buffer);
        while reader.next().is_ok() {}
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
