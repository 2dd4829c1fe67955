//! Protected files that the host replaces while the sandbox runs.
//!
//! The kernel drops a mount when the file under it is unlinked or renamed over from outside, as
//! `git config` on the host does. Whoever started the sandbox notices and protects the new file.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use sandbox_linux::inotify::{Changed, Inotify};
use sandbox_linux::namespace::Namespaces;
use sandbox_linux::process;
use sandbox_linux::root::{Protection, protect_again};

use crate::plan::{Mount, View, nearest};

/// Watches the directories of protected files.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    protected: Vec<(PathBuf, Protection)>,
    /// The sandbox's, once it stands.
    namespaces: Option<Namespaces>,
}

impl Watch {
    /// Begins to watch, before there is a sandbox in which something could go unseen. `None` when
    /// there is nothing to watch.
    pub fn open(paths: &[PathBuf], mounts: &[Mount]) -> Option<Self> {
        if paths.is_empty() {
            return None;
        }
        let mut inotify = Inotify::new().ok()?;
        let mut dirs: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        dirs.dedup();
        for dir in dirs {
            // A directory that has gone since then has nothing left to protect.
            let _ = inotify.add(dir);
        }
        let protection = |path: &PathBuf| match nearest(mounts, path).map(|mount| mount.view) {
            Some(View::EmptyFile) => Protection::Hidden,
            _ => Protection::ReadOnly,
        };
        let protected = paths.iter().map(|path| (path.clone(), protection(path))).collect();
        Some(Self { inotify, protected, namespaces: None })
    }

    /// The command runs as `pid`; its parent is the first process of the sandbox and stays in the
    /// sandbox's namespaces to the end.
    pub fn begun(&mut self, pid: i32) {
        self.namespaces = process::parent_of(pid).and_then(|init| Namespaces::of(init).ok());
    }

    /// What to wait for, once something can be done about it.
    pub fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.namespaces.as_ref().map(|_| self.inotify.as_fd())
    }

    /// Protects again what was replaced.
    pub fn look(&mut self) {
        let Some(namespaces) = &self.namespaces else { return };
        let changed = self.inotify.changed();
        let was_replaced = |path: &PathBuf| match &changed {
            Changed::Names(names) => names.contains(path),
            Changed::TooMuch => true,
        };
        let lost: Vec<_> = self.protected.iter().filter(|(path, _)| was_replaced(path)).collect();
        if lost.is_empty() {
            return;
        }
        let enter = || {
            if namespaces.enter().is_err() {
                return 1;
            }
            let failed =
                lost.iter().filter(|(path, protection)| protect_again(path, *protection).is_err());
            i32::from(failed.count() > 0)
        };
        // Its own process: entering a namespace cannot be undone. What fails here is caught by the
        // look at the end of the run.
        if let Ok(child) = process::fork(enter) {
            let _ = child.wait();
        }
    }
}
