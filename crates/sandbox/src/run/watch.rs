//! Restores the protection of files that the host replaces while the sandbox runs.
//!
//! The kernel removes a mount when the file under it is unlinked or replaced from another mount namespace, as
//! `git config` on the host does: `mount_namespaces(7)`. The supervisor notices and protects the new file.
//!
//! A lost mount is an event of the sandbox's mount table: poll(2) on `/proc/PID/mountinfo`, proc(5). Directories are
//! watched with inotify only after such an event, while a file is missing and may return. The kernel takes milliseconds
//! to end an inotify watch, and otherwise every run would have to wait for that.

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

/// Device and inode of each file; `None` for a missing file.
pub(super) type Identities = Vec<Option<(u64, u64)>>;

/// Returns the identities of the files that are at these paths now.
pub(super) fn identities(paths: &[PathBuf]) -> Identities {
    let identity = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    paths.iter().map(identity).collect()
}

/// Watch over protected files.
#[derive(Debug)]
pub(super) struct Watch {
    inside: Inside,
    protected: Vec<(PathBuf, Protection)>,
    /// Watch of their directories, once a file is missing.
    dirs: Option<Inotify>,
}

impl Watch {
    /// Starts to watch these paths of a sandbox with these mounts.
    pub(super) fn open(paths: &[PathBuf], mounts: &[Mount], inside: Inside) -> Self {
        let protection = |path: &PathBuf| match nearest(mounts, path).map(|mount| mount.view) {
            Some(View::EmptyFile) => Protection::Hidden,
            _ => Protection::ReadOnly,
        };
        let protected = paths.iter().map(|path| (path.clone(), protection(path))).collect();
        let mut watch = Self { inside, protected, dirs: None };
        // A file that was replaced before the table was opened causes no event.
        if !watch.all_protected() {
            watch.restore();
        }
        watch
    }

    /// Returns true if every file is still protected inside the sandbox.
    fn all_protected(&self) -> bool {
        let holds = |(path, protection): &(PathBuf, Protection)| {
            is_protected(&self.inside.path(path), *protection)
        };
        self.protected.iter().all(holds)
    }

    /// Returns the descriptors to wait for before the next [`Watch::restore`].
    pub(super) fn awaited(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Awaited)> {
        let dirs = self.dirs.as_ref().map(|dirs| (dirs.as_fd(), Awaited::Data));
        [(self.inside.table(), Awaited::Event)].into_iter().chain(dirs)
    }

    /// Restores the protection of replaced files.
    pub(super) fn restore(&mut self) {
        if let Some(dirs) = &self.dirs {
            dirs.drain();
        }
        if self.protect() || self.dirs.is_some() {
            return;
        }
        self.dirs = self.watch_dirs();
        // The file may have returned before its directory was watched.
        self.protect();
    }

    fn watch_dirs(&self) -> Option<Inotify> {
        let inotify = Inotify::new().ok()?;
        let mut dirs: Vec<&Path> =
            self.protected.iter().filter_map(|(path, _)| path.parent()).collect();
        dirs.dedup();
        for dir in dirs {
            // Fails for a directory that was removed. Nothing is left to protect in it.
            let _ = inotify.add(dir);
        }
        Some(inotify)
    }

    /// Protects every file again. Returns true if that succeeded for all.
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
        // In a child process: the supervisor could not return to its own namespaces after setns(2). The scan after the
        // run reports files that could not be protected.
        process::fork(enter)
            .and_then(|child| child.wait())
            .is_ok_and(|end| end == Change::Exited(0))
    }
}
