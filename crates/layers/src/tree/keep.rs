//! Keeping what happened: writing changed inodes, commits in the background, the end of a mount.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::node::Body;
use super::{OrErrno, Result, State, Tree};
use crate::store::StoreError;

/// A change waits at most this long for a commit.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);
/// What was deleted beside the database waits as long for the disk to know.
const DELETED: Duration = Duration::from_secs(1);
/// The write-ahead log is cut when it is longer, or this long after as many idle rounds.
const LOG: u64 = 128 << 20;
const LOG_AT_REST: u64 = 4 << 20;
const RESTED: u32 = 50;
/// What a change may need in the database, names and attributes.
const CHANGE: u64 = 4096;

/// Room on the disk, as far as known.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Nothing that grows is accepted.
    full: bool,
    /// The last commit failed: nothing is accepted at all.
    stuck: bool,
    /// True when the disk was ever asked: nobody asks before the first change.
    asked: bool,
    /// Bytes accepted since then.
    used: u64,
    buried: Option<Instant>,
    /// How often in a row there was nothing to do.
    rested: u32,
}

impl Tree {
    /// What is to be done every `PATIENCE`: commits, now and then more. A full disk is no news to
    /// anybody here: whoever writes next is told, and the next commit tries again.
    pub fn tick(&self) {
        // Here nobody waits for it; the commit has little left to wait for.
        let unsynced = self.lock().store.unsynced();
        for file in unsynced {
            drop(file.sync_data());
        }
        let mut state = self.lock();
        if state.is_idle() && !state.room.full {
            state.rest();
            return;
        }
        state.room.rested = 0;
        let _ = state.commit();
        let late = state.room.buried.is_none_or(|buried| buried.elapsed() > DELETED);
        if (late || state.room.full) && state.store.has_doomed() {
            state.room.buried = Some(Instant::now());
            let _ = state.store.sync();
        }
        let limit = if state.room.full { 0 } else { LOG };
        let _ = state.store.checkpoint(limit);
    }

    /// Ends the view: everything is committed, and the database brought to rest.
    pub fn close(self) -> std::result::Result<(), StoreError> {
        let mut state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.settle().map_err(std::io::Error::from)?;
        let ids: Vec<u64> = state.nodes.keys().copied().collect();
        for id in ids {
            if let Ok(node) = state.node_mut(id) {
                (node.lookups, node.opens, node.body) = (0, 0, Body::Closed);
            }
            state.trim(id);
        }
        state.settle().map_err(std::io::Error::from)?;
        let State { store, .. } = state;
        store.close()
    }

    /// How the file system below is filled.
    pub fn disk(&self) -> Result<rustix::fs::StatVfs> {
        let path = self.lock().store.path().to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        rustix::fs::statvfs(parent.unwrap_or(std::path::Path::new(".")))
    }
}

impl State {
    /// Nothing has happened for a while: a good time to cut the log, which holds everybody up.
    fn rest(&mut self) {
        self.room.rested = self.room.rested.saturating_add(1);
        if self.room.rested == RESTED {
            let _ = self.store.checkpoint(LOG_AT_REST);
        } else if self.room.asked && self.store.is_short() {
            // Whoever fills the disk does not wait.
            let _ = self.store.checkpoint(0);
            self.room.full = !self.store.has_room();
        }
    }

    fn is_idle(&self) -> bool {
        let nothing = self.dirty.is_empty() && self.orphans.is_empty();
        nothing && !self.store.is_due(Duration::ZERO) && !self.store.has_doomed()
    }

    /// Writes changed inodes, and notes those without a name. Nodes that nobody holds any more go.
    pub(super) fn settle(&mut self) -> Result<()> {
        while let Some(id) = self.dirty.pop() {
            if let Err(error) = self.save(id) {
                self.dirty.push(id);
                // A commit makes the log obsolete that speaks of them.
                self.unlogged.clone_from(&self.dirty);
                return Err(error);
            }
            self.trim(id);
        }
        while let Some(id) = self.orphans.pop() {
            let Some(node) = self.nodes.get_mut(&id).filter(|node| node.inode.nlink == 0) else {
                continue;
            };
            if let Some(ino) = node.delta {
                node.orphan = true;
                self.store.put_orphan(ino).or_errno()?;
            }
        }
        self.unlogged.clear();
        self.mark = self.store.mark();
        Ok(())
    }

    /// Makes everything that was answered outlive this process, by one write to the redo log. What
    /// was written to a file that is still open waits for its close, unless the change was about
    /// that file: its length must not speak of content that is not there.
    pub(super) fn keep(&mut self) -> Result<()> {
        if self.store.is_large() || self.log().is_err() {
            return self.commit();
        }
        self.unlogged.clear();
        Ok(())
    }

    /// Commits, and asks whether there is room for more.
    fn commit(&mut self) -> Result<()> {
        let done = self.settle().and_then(|()| self.store.commit().or_errno());
        self.room.stuck = done.is_err();
        self.room.full = done.is_err() || !self.store.has_room();
        (self.room.asked, self.room.used) = (true, 0);
        done
    }

    /// What is accepted must have a place: no more than there is room for waits for a commit.
    pub(super) fn make_room(&mut self) -> Result<()> {
        if !self.room.asked || self.room.stuck || self.room.used > self.store.enough() {
            self.commit()?;
        }
        Ok(())
    }

    fn log(&mut self) -> Result<()> {
        let mut inodes = Vec::with_capacity(self.unlogged.len());
        for index in 0..self.unlogged.len() {
            let id = self.unlogged[index];
            if !self.nodes.contains_key(&id) {
                continue;
            }
            self.complete(id)?;
            let node = self.node(id)?;
            inodes.extend(node.delta.map(|ino| (ino, node.inode)));
        }
        self.store.keep(&inodes).or_errno()
    }

    /// Writes an inode, and with it the content that its length speaks of.
    fn save(&mut self, id: u64) -> Result<()> {
        if !self.nodes.contains_key(&id) {
            return Ok(());
        }
        self.complete(id)?;
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        if let Some(ino) = node.delta {
            self.store.put_inode(ino, &node.inode).or_errno()?;
        }
        node.dirty = false;
        Ok(())
    }

    /// Stores the content that a node's length speaks of. Without a name nobody will look for it.
    fn complete(&mut self, id: u64) -> Result<()> {
        if self.node(id)?.inode.nlink > 0 {
            self.store_body(id)?;
        }
        self.catch_up(id)
    }

    /// Refuses what would need room that the disk does not have.
    pub(super) fn need_room(&mut self) -> Result<()> {
        self.need_room_for(CHANGE)
    }

    pub(super) fn need_room_for(&mut self, bytes: u64) -> Result<()> {
        self.room.used += bytes;
        if self.room.full { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// The same for taking a name away, which needs room only where the base has it too.
    pub(super) fn need_room_to_hide(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        if self.room.full && self.below(parent, name)?.is_some() {
            return Err(Errno::NOSPC);
        }
        self.room.used += CHANGE;
        Ok(())
    }
}
