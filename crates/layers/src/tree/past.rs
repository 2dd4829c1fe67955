//! Plain files that programs write past us: what changed there is looked up when somebody asks.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::node::{Body, Past};
use super::{Result, State, Tree};
use crate::store::Time;

impl Tree {
    /// The plain file that an open file's content is, if it may be handed out: a file whose set-id
    /// bits a write must take away is written through us.
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

    /// Says whether the kernel takes plain files: then copies are made of what is read.
    pub(crate) fn keep_copies(&self, keep: bool) {
        self.copies.store(keep, Ordering::Relaxed);
    }

    /// What the kernel holds twice of files that are being copied out: through us in its cache, and as
    /// pages of the copy. The next reader is served by the copy alone, and would have to wait until
    /// the kernel has dropped the rest.
    pub(crate) fn held_twice(&self) -> Vec<(u64, Range<u64>)> {
        let mut state = self.lock();
        let twice = state.store.held_twice().into_iter();
        twice.map(|(ino, range)| (state.shown.get(&ino).copied().unwrap_or(ino), range)).collect()
    }

    /// Says whether an open file is now read and written past us.
    pub(crate) fn set_past(&self, id: u64, past: bool) {
        let mut state = self.lock();
        // Another opening may have written already.
        let _ = state.catch_up(id);
        if past {
            state.look(id);
        } else if let Ok(node) = state.node_mut(id) {
            node.past = None;
        }
    }
}

impl State {
    /// Remembers what the plain file looks like now.
    pub(super) fn look(&mut self, id: u64) {
        let Ok(node) = self.node_mut(id) else { return };
        if let Body::Loose(file) = &node.body {
            (node.past, node.passed) = (seen(file), true);
        }
    }

    /// Takes over what was written past us.
    pub(super) fn catch_up(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        let (Some(last), Body::Loose(file)) = (node.past, &node.body) else { return Ok(()) };
        let Some(now) = seen(file).filter(|now| *now != last) else { return Ok(()) };
        let node = self.touch_content(id)?;
        node.past = Some(now);
        node.inode.size = now.size;
        (node.inode.mtime, node.inode.ctime) = (now.mtime, now.mtime);
        Ok(())
    }
}

fn seen(file: &File) -> Option<Past> {
    let stat = rustix::fs::fstat(file).ok()?;
    let nsec = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let mtime = Time { sec: stat.st_mtime, nsec };
    Some(Past { size: u64::try_from(stat.st_size).unwrap_or(0), mtime })
}
