//! Being told when a name in a directory is made, replaced or removed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

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

    /// The paths whose names have changed since the last call.
    pub fn changed(&self) -> Vec<PathBuf> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut changed = Vec::new();
        while let Ok(event) = reader.next() {
            if let (Some(dir), Some(name)) = (self.dirs.get(&event.wd()), event.file_name()) {
                changed.push(dir.join(OsString::from_vec(name.to_bytes().to_vec())));
            }
        }
        changed
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
