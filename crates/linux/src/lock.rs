//! Lock files: flock(2) locks, which the kernel releases when their last descriptor is closed.
//!
//! A lock therefore cannot outlive its holders. A child that inherits the descriptor is a holder too.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Pause between two attempts to take a lock within a time limit.
const PAUSE: Duration = Duration::from_millis(5);

/// File or directory used as a lock. Dropping it releases the lock.
#[derive(Debug)]
pub struct LockFile(File);

impl LockFile {
    /// Opens a lock file without taking the lock, or creates it with mode 0600.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(path).map(Self)
    }

    /// Opens an existing file or directory for reading, without taking the lock.
    pub fn existing(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Opens a lock file and takes its lock; `None` if another process holds it.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let lock = Self::open(path)?;
        Ok(lock.try_exclusive()?.then_some(lock))
    }

    /// Opens a lock file and waits for its lock.
    pub fn take(path: &Path) -> io::Result<Self> {
        let lock = Self::open(path)?;
        lock.exclusive()?;
        Ok(lock)
    }

    /// Waits for the lock.
    pub fn exclusive(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| flock(&self.0, FlockOperation::LockExclusive))?)
    }

    /// Takes the lock; false if another process holds it.
    pub fn try_exclusive(&self) -> io::Result<bool> {
        self.attempt(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock; false if another process holds it exclusively.
    pub fn try_shared(&self) -> io::Result<bool> {
        self.attempt(FlockOperation::NonBlockingLockShared)
    }

    /// Takes the lock within a time limit; false if another process holds it for longer.
    pub fn exclusive_within(&self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            if self.try_exclusive()? {
                return Ok(true);
            }
            if Instant::now() > end {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn attempt(&self, operation: FlockOperation) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| flock(&self.0, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true while `path` refers to this file. Once a holder has removed the file, the lock no longer excludes
    /// other processes.
    pub fn is_at(&self, path: &Path) -> bool {
        let identity = |data: Metadata| (data.dev(), data.ino());
        let current = std::fs::metadata(path).ok().map(identity);
        current.is_some() && current == self.0.metadata().ok().map(identity)
    }

    /// Returns the file behind the lock.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl From<File> for LockFile {
    fn from(file: File) -> Self {
        Self(file)
    }
}

impl From<LockFile> for File {
    fn from(lock: LockFile) -> Self {
        lock.0
    }
}

impl From<LockFile> for OwnedFd {
    fn from(lock: LockFile) -> Self {
        lock.0.into()
    }
}

/// Opens a lock file that another process holds exclusively, to read its content. `None` if the lock is free or the
/// file is missing.
pub fn held(path: &Path) -> Option<File> {
    let lock = LockFile::existing(path).ok()?;
    matches!(lock.try_shared(), Ok(false)).then_some(lock.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_held_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(held(&path).is_none(), "no file");
        let lock = LockFile::take(&path).unwrap();
        assert!(held(&path).is_some());
        assert!(LockFile::try_take(&path).unwrap().is_none());
        let other = LockFile::open(&path).unwrap();
        assert!(!other.exclusive_within(Duration::from_millis(1)).unwrap());
        drop(lock);
        assert!(held(&path).is_none());
        assert!(other.exclusive_within(Duration::ZERO).unwrap());
    }

    #[test]
    fn lock_can_be_shared() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = [(); 2].map(|()| LockFile::existing(dir.path()).unwrap());
        assert!(one.try_shared().unwrap());
        assert!(two.try_shared().unwrap());
        assert!(!two.try_exclusive().unwrap());
    }

    #[test]
    fn is_at_is_false_when_the_file_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = LockFile::take(&path).unwrap();
        assert!(lock.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.is_at(&path));
        let new = LockFile::take(&path).unwrap();
        assert!(new.is_at(&path) && !lock.is_at(&path));
    }
}
