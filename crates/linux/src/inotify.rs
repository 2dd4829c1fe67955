//! Being told when a name in a directory is made, replaced or removed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Directories that are watched for changes of names.
#[derive(Debug)]
pub struct Inotify {
    fd: OwnedFd,
    dirs: HashMap<i32, PathBuf>,
}

impl Inotify {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd, dirs: HashMap::new() })
    }

    /// Watches one directory.
    pub fn add(&mut self, dir: &Path) -> io::Result<()> {
        let flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&self.fd, dir, flags)?;
        self.dirs.insert(watch, dir.to_path_buf());
        Ok(())
    }

    /// What has changed since the last call.
    pub fn changed(&self) -> Changed {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut names = Vec::new();
        let mut lost = false;
        while let Ok(event) = reader.next() {
            lost |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            if let (Some(dir), Some(name)) = (self.dirs.get(&event.wd()), event.file_name()) {
                names.push(dir.join(OsString::from_vec(name.to_bytes().to_vec())));
            }
        }
        if lost { Changed::TooMuch } else { Changed::Names(names) }
    }
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The paths whose names were made, replaced or removed.
    Names(Vec<PathBuf>),
    /// More than the kernel keeps in mind: it may have been anything.
    TooMuch,
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
