//! Notification when a name in a directory is created, replaced or removed: inotify(7).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Set of watched directories.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl Inotify {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Adds a directory to the set.
    pub fn add(&self, dir: &Path) -> io::Result<()> {
        let flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.0, dir, flags)?;
        Ok(())
    }

    /// Discards all pending events.
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
