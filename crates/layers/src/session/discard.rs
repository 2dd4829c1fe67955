//! Discarding single paths of a session, which shows the base there again.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::{SessionError, cannot};
use super::lock::Lock;
use super::opened::LayerSession;
use super::record::LayerEngine;
use crate::RelPath;
use crate::change::{Layer, Node};
use crate::host::HostTree;
use crate::overlay::Stack;

impl LayerSession {
    /// Discards everything in the layer of root number `root` at a path and below it.
    pub fn discard(&self, _lock: &Lock, root: usize, path: &RelPath) -> Result<(), SessionError> {
        let place = self.root(root)?;
        if self.record().engine != LayerEngine::Overlay {
            return Err(SessionError::DiscardEngine(self.record().engine));
        }
        self.check_above(root, path)?;
        let mut uppers = self.uppers(place);
        let Some(top) = uppers.pop() else { return Ok(()) };
        let lower = Stack::open(&uppers, place.base()).map_err(cannot("open", &top))?;
        if lower.entries()?.iter().any(|entry| concerns(&entry.path, &entry.node, path)) {
            return Err(SessionError::DiscardSnapshot(path.as_path().to_path_buf()));
        }
        remove(&top, path)?;
        let mut record = self.base_record(root)?;
        record.forget_below(path);
        record.write(root)
    }

    /// Fails for a path below a directory that hides the base, because the base would stay hidden.
    fn check_above(&self, root: usize, path: &RelPath) -> Result<(), SessionError> {
        for entry in self.layer(root)?.entries()? {
            let hides = matches!(entry.node, Node::Gone | Node::Dir { opaque: true, .. });
            let above = path != &entry.path && path.as_path().starts_with(entry.path.as_path());
            if hides && above {
                let (path, dir) =
                    (path.as_path().to_path_buf(), entry.path.as_path().to_path_buf());
                return Err(SessionError::DiscardBelow { path, dir });
            }
        }
        Ok(())
    }
}

/// Returns true when an entry affects a path or anything below it.
fn concerns(entry: &RelPath, node: &Node, path: &RelPath) -> bool {
    let hides = !matches!(node, Node::Dir { opaque: false, .. });
    entry.as_path().starts_with(path.as_path())
        || (hides && path.as_path().starts_with(entry.as_path()))
}

/// Removes a path from an upper directory. Follows no link, because the directory was written from inside the sandbox.
fn remove(upper: &Path, path: &RelPath) -> Result<(), SessionError> {
    let full = upper.join(path.as_path());
    let tree = HostTree::open(upper).map_err(cannot("open", upper))?;
    match tree.parent(path) {
        Err(error) if crate::host::is_absent(&error) => Ok(()),
        Err(error) => Err(cannot("open", &full)(error)),
        Ok((dir, name)) => remove_all(&dir, name).map_err(cannot("remove", &full)),
    }
}

const DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes an entry with everything below it. The kernel bounded the depth when the tree was created. One descriptor
/// per level stays open.
fn remove_all(dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match sys::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let inner = match sys::openat(dir, name, DIR, Mode::empty()) {
        // Its owner, the current user, removed the permission.
        Err(Errno::ACCESS) => {
            sys::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
            sys::openat(dir, name, DIR, Mode::empty())?
        }
        opened => opened?,
    };
    let _ = sys::fchmod(&inner, Mode::RWXU);
    for entry in sys::Dir::read_from(&inner)? {
        let entry = entry?;
        let below = entry.file_name().to_bytes();
        if below != b"." && below != b".." {
            use std::os::unix::ffi::OsStrExt;
            remove_all(&inner, OsStr::from_bytes(below))?;
        }
    }
    sys::unlinkat(dir, name, AtFlags::REMOVEDIR)
}
