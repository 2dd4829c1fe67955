//! Protected files that the host replaces while the sandbox runs.
//!
//! The kernel drops a mount when the file under it is unlinked or renamed over from outside, as
//! `git config` on the host does. Whoever started the sandbox notices and protects the new file.
//!
//! A lost mount is an event of the sandbox's mount table. Only after one, when a file is gone and
//! may come back, are directories watched: the kernel takes milliseconds to end such a watch, which
//! every run would have to wait for.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_linux::channel::Awaited;
use sandbox_linux::inotify::Inotify;
use sandbox_linux::namespace::Inside;
use sandbox_linux::process::{self, Change};
use sandbox_linux::root::{Protection, is_protected, protect_again};

use crate::plan::{Mount, View, nearest};

/// Device and inode of each file; nothing for one that is not there.
pub(super) type Identities = Vec<Option<(u64, u64)>>;

/// Which files stand at these paths now.
pub(super) fn identities(paths: &[PathBuf]) -> Identities {
    let identity = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    paths.iter().map(identity).collect()
}

/// Watches over protected files.
#[derive(Debug)]
pub(super) struct Watch {
    inside: Inside,
    protected: Vec<(PathBuf, Protection)>,
    /// Their directories, once a file is gone.
    dirs: Option<Inotify>,
}

impl Watch {
    /// Begins to watch over these paths of the sandbox with these mounts.
    pub(super) fn open(paths: &[PathBuf], mounts: &[Mount], inside: Inside) -> Self {
        let protection = |path: &PathBuf| match nearest(mounts, path).map(|mount| mount.view) {
            Some(View::EmptyFile) => Protection::Hidden,
            _ => Protection::ReadOnly,
        };
        let protected = paths.iter().map(|path| (path.clone(), protection(path))).collect();
        let mut watch = Self { inside, protected, dirs: None };
        // What was replaced before the table was opened is no event any more.
        if !watch.is_whole() {
            watch.look();
        }
        watch
    }

    /// Whether everything is still protected in the eyes of the sandbox.
    fn is_whole(&self) -> bool {
        let holds = |(path, protection): &(PathBuf, Protection)| {
            is_protected(&self.inside.path(path), *protection)
        };
        self.protected.iter().all(holds)
    }

    /// What to wait for before the next [`Watch::look`].
    pub(super) fn awaited(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Awaited)> {
        let dirs = self.dirs.as_ref().map(|dirs| (dirs.as_fd(), Awaited::Data));
        [(self.inside.table(), Awaited::Event)].into_iter().chain(dirs)
    }

    /// Protects again what was replaced.
    pub(super) fn look(&mut self) {
        if let Some(dirs) = &self.dirs {
            dirs.drain();
        }
        if self.protect() || self.dirs.is_some() {
            return;
        }
        self.dirs = self.watch_dirs();
        // It may have come back before its directory was watched.
        self.protect();
    }

    fn watch_dirs(&self) -> Option<Inotify> {
        let inotify = Inotify::new().ok()?;
        let mut dirs: Vec<&Path> =
            self.protected.iter().filter_map(|(path, _)| path.parent()).collect();
        dirs.dedup();
        for dir in dirs {
            // A directory that has gone since then has nothing left to protect.
            let _ = inotify.add(dir);
        }
        Some(inotify)
    }

    /// Whether everything is protected now.
    fn protect(&self) -> bool {
        let enter = || {
            if self.inside.enter().is_err() {
                return 1;
            }
            let failed = self
                .protected
                .iter()
                .filter(|(path, protection)| protect_again(path, *protection).is_err());
            i32::from(failed.count() > 0)
        };
        // Its own process: entering a namespace cannot be undone. What fails here is caught by the
        // look at the end of the run.
        process::fork(enter)
            .and_then(|child| child.wait())
            .is_ok_and(|end| end == Change::Exited(0))
    }
}
