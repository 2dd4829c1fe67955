//! Directory listings.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lookup::found;
use super::{Attr, OrErrno, ROOT, Result, Tree};
use crate::store::Kind;

/// Directory entry.
#[derive(Debug, Clone)]
pub struct Item {
    /// Name.
    pub name: OsString,
    /// Inode number that programs see.
    pub id: u64,
    /// Type.
    pub kind: Kind,
    /// Offset in the directory.
    pub at: u64,
}

/// Cached directory listings. The offset of an entry depends on its name alone, so a reader can
/// continue after any change of the directory and an open directory needs no state. The cache only
/// avoids rebuilding the list for each part.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// Random key per mount, so that no one can craft names with equal offsets.
    key: RandomState,
    /// Recent listings, the latest at the end.
    kept: Mutex<Vec<(u64, Arc<Vec<Item>>)>>,
}

/// Maximum number of cached listings.
const KEPT: usize = 8;

impl Listings {
    /// Returns the offset of a name. The lowest ones are reserved for `.` and `..`.
    fn offset(&self, name: &OsStr) -> u64 {
        (self.key.hash_one(name) >> 2) + 3
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(u64, Arc<Vec<Item>>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, id: u64, items: &Arc<Vec<Item>>) {
        let mut kept = self.kept();
        kept.retain(|(kept, _)| *kept != id);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((id, Arc::clone(items)));
    }

    /// Returns the cached listing of a directory and drops it at its end.
    fn take(&self, id: u64, offset: u64) -> Option<Arc<Vec<Item>>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(kept, _)| *kept == id)?;
        let over = kept[at].1.last().is_none_or(|last| last.at <= offset);
        Some(if over { kept.remove(at).1 } else { Arc::clone(&kept[at].1) })
    }
}

impl Tree {
    /// Returns the entries of a directory, sorted by offset. Offset 0 reads the directory again.
    pub fn items(&self, id: u64, offset: u64) -> Result<Arc<Vec<Item>>> {
        if offset > 0
            && let Some(items) = self.listings.take(id, offset)
        {
            return Ok(items);
        }
        let mut items = self.list(id)?;
        items.sort_unstable_by_key(|item| item.at);
        let items = Arc::new(items);
        self.listings.keep(id, &items);
        Ok(items)
    }

    /// Returns the attributes of an entry without counting a lookup.
    pub fn peek(&self, parent: u64, item: &Item) -> Result<Option<Attr>> {
        // A node with this very name is current; no disk access is needed.
        let mut state = self.lock();
        if state.nodes.get(&item.id).is_some_and(|node| node.is_at(parent, &item.name)) {
            return state.meet(item.id, 0).map(Some);
        }
        drop(state);
        self.find(parent, &item.name, 0)
    }

    /// Counts a lookup of an entry returned by readdirplus.
    pub fn met(&self, id: u64) {
        if let Ok(node) = self.lock().node_mut(id) {
            node.lookups += 1;
        }
    }

    fn list(&self, id: u64) -> Result<Vec<Item>> {
        let mut state = self.lock();
        // Pending inodes must be in the database, because their types are read from there.
        state.settle()?;
        let node = state.node(id)?;
        let parent = node.place.as_ref().map_or(ROOT, |place| place.parent);
        let mut items = vec![dot(".", id, 1), dot("..", parent, 2)];
        let path = node.base.clone();
        if let Some(ino) = node.delta {
            for name in state.store.names(ino).or_errno()? {
                let id = state.shown_as(name.ino)?;
                let at = self.listings.offset(&name.name);
                items.push(Item { name: name.name, id, kind: name.kind, at });
            }
        }
        let (Some(path), Some(base)) = (path, state.base.clone()) else { return Ok(items) };
        drop(state);
        let listed = found(base.list(&path))?.unwrap_or_default();
        let state = self.lock();
        let own: HashSet<OsString> = items.iter().map(|item| item.name.clone()).collect();
        for entry in listed {
            if !own.contains(&entry.name)
                && !state.store.is_gone(&path.join(&entry.name)).or_errno()?
            {
                let at = self.listings.offset(&entry.name);
                items.push(Item { name: entry.name, id: entry.ino, kind: entry.kind, at });
            }
        }
        Ok(items)
    }
}

impl super::State {
    fn shown_as(&self, ino: u64) -> Result<u64> {
        match self.shown.get(&ino) {
            Some(id) => Ok(*id),
            None => self.store.shown(ino).or_errno(),
        }
    }
}

fn dot(name: &str, id: u64, at: u64) -> Item {
    Item { name: name.into(), id, kind: Kind::Dir, at }
}
