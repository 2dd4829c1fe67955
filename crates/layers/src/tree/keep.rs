//! Persistence: writing changed inodes, background commits, closing.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::node::Body;
use super::{OrErrno, Result, State, Tree};
use crate::store::StoreError;

/// Maximum age of a change before its commit.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);
/// Maximum age of a deletion beside the database before it is synced.
const DELETED: Duration = Duration::from_secs(1);
/// Length at which the write-ahead log is truncated, and the same after `RESTED` idle rounds.
const LOG: u64 = 128 << 20;
const LOG_AT_REST: u64 = 4 << 20;
const RESTED: u32 = 50;
/// Bytes that a change may need in the database for names and attributes.
const CHANGE: u64 = 4096;

/// Known state of the disk space.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// True when growing operations are refused.
    full: bool,
    /// True when the last commit failed: all changes are refused.
    stuck: bool,
    /// True when the disk space was checked, which happens at the first change.
    asked: bool,
    /// Bytes accepted since then.
    used: u64,
    buried: Option<Instant>,
    /// Number of consecutive idle rounds.
    rested: u32,
}

impl Tree {
    /// Runs every `PATIENCE`: commits, and occasionally does more. Errors of a full disk are
    /// ignored here, because the next write reports them and the next commit retries.
    pub fn tick(&self) {
        // Sync without the lock, so that the commit has little left to wait for.
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

    /// Closes the view: commits everything and closes the database.
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

    /// Returns the usage of the file system that holds the database.
    pub fn disk(&self) -> Result<rustix::fs::StatVfs> {
        let path = self.lock().store.path().to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        rustix::fs::statvfs(parent.unwrap_or(std::path::Path::new(".")))
    }
}

impl State {
    /// Truncates the log while idle, because that blocks all requests.
    fn rest(&mut self) {
        self.room.rested = self.room.rested.saturating_add(1);
        if self.room.rested == RESTED {
            let _ = self.store.checkpoint(LOG_AT_REST);
        } else if self.room.asked && self.store.is_short() {
            // Another program that fills the disk does not wait for us.
            let _ = self.store.checkpoint(0);
            self.room.full = !self.store.has_room();
        }
    }

    fn is_idle(&self) -> bool {
        let nothing = self.dirty.is_empty() && self.orphans.is_empty();
        nothing && !self.store.is_due(Duration::ZERO) && !self.store.has_doomed()
    }

    /// Writes changed inodes and records orphans. Drops nodes without users.
    pub(super) fn settle(&mut self) -> Result<()> {
        while let Some(id) = self.dirty.pop() {
            if let Err(error) = self.save(id) {
                self.dirty.push(id);
                // The commit discards the log records of these inodes.
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

    /// Persists all acknowledged changes with one write to the redo log. Writes to an open file
    /// wait for its close, unless the change concerns that file: a logged length must not cover
    /// missing content.
    pub(super) fn keep(&mut self) -> Result<()> {
        if self.store.is_large() || self.log().is_err() {
            return self.commit();
        }
        self.unlogged.clear();
        Ok(())
    }

    /// Commits and checks whether there is space for more.
    fn commit(&mut self) -> Result<()> {
        let done = self.settle().and_then(|()| self.store.commit().or_errno());
        self.room.stuck = done.is_err();
        self.room.full = done.is_err() || !self.store.has_room();
        (self.room.asked, self.room.used) = (true, 0);
        done
    }

    /// Limits uncommitted changes to the reserved space.
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

    /// Writes an inode together with the content that its length covers.
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

    /// Stores the content that a node's length covers. Skips files without a name.
    fn complete(&mut self, id: u64) -> Result<()> {
        if self.node(id)?.inode.nlink > 0 {
            self.store_body(id)?;
        }
        self.catch_up(id)
    }

    /// Fails with ENOSPC when a growing operation has no disk space.
    pub(super) fn need_room(&mut self) -> Result<()> {
        self.need_room_for(CHANGE)
    }

    pub(super) fn need_room_for(&mut self, bytes: u64) -> Result<()> {
        self.room.used += bytes;
        if self.room.full { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Checks the space for removing a name, which needs some only if the base has the name too.
    pub(super) fn need_room_to_hide(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        if self.room.full && self.below(parent, name)?.is_some() {
            return Err(Errno::NOSPC);
        }
        self.room.used += CHANGE;
        Ok(())
    }
}
