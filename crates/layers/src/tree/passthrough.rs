//! Passthrough files: the kernel reads and writes them directly, so their size and times are
//! re-read on demand.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::node::{Body, FileState};
use super::{Result, State, Tree};
use crate::store::Time;

impl Tree {
    /// Returns the plain file for passthrough, if allowed. A file with set-id bits is written
    /// through this process, which clears them.
    pub(crate) fn plain_file(&self, id: u64, writes: bool) -> Option<Arc<File>> {
        let mut state = self.lock();
        let node = state.node(id).ok()?;
        if writes && node.inode.mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
            return None;
        }
        match &node.body {
            Body::Copy(file) if !writes => Some(Arc::clone(file)),
            Body::Copy(_) => {
                state.claim_copy(id).ok()?;
                state.plain(id).ok()?
            }
            _ => state.plain(id).ok()?,
        }
    }

    /// Enables copies of files that are read, for kernels with passthrough.
    pub(crate) fn keep_copies(&self, keep: bool) {
        self.copies.store(keep, Ordering::Relaxed);
    }

    /// Returns the ranges of files being copied that the kernel caches twice, for the FUSE file and
    /// for the copy. The next reader uses the copy alone and would have to wait until the kernel
    /// drops the FUSE pages.
    pub(crate) fn held_twice(&self) -> Vec<(u64, Range<u64>)> {
        let mut state = self.lock();
        let twice = state.store.held_twice().into_iter();
        twice.map(|(ino, range)| (state.shown.get(&ino).copied().unwrap_or(ino), range)).collect()
    }

    /// Records that passthrough of an open file begins or ends.
    pub(crate) fn set_passthrough(&self, id: u64, on: bool) {
        let mut state = self.lock();
        // Another opener may have written already.
        let _ = state.catch_up(id);
        if on {
            state.refresh(id);
        } else if let Ok(node) = state.node_mut(id) {
            node.passthrough = None;
        }
    }
}

impl State {
    /// Records the current state of the plain file.
    pub(super) fn refresh(&mut self, id: u64) {
        let Ok(node) = self.node_mut(id) else { return };
        if let Body::Loose(file) = &node.body {
            (node.passthrough, node.ever_passthrough) = (seen(file), true);
        }
    }

    /// Applies what was written through passthrough.
    pub(super) fn catch_up(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        let (Some(last), Body::Loose(file)) = (node.passthrough, &node.body) else { return Ok(()) };
        let Some(now) = seen(file).filter(|now| *now != last) else { return Ok(()) };
        let node = self.touch_content(id)?;
        node.passthrough = Some(now);
        node.inode.size = now.size;
        (node.inode.mtime, node.inode.ctime) = (now.mtime, now.mtime);
        Ok(())
    }
}

fn seen(file: &File) -> Option<FileState> {
    let stat = rustix::fs::fstat(file).ok()?;
    let nsec = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let mtime = Time { sec: stat.st_mtime, nsec };
    Some(FileState { size: u64::try_from(stat.st_size).unwrap_or(0), mtime })
}
