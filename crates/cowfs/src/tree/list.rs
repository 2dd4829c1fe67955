//! Listing directories.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

use super::lookup::found;
use super::{Attr, OrErrno, ROOT, Result, Tree};
use crate::store::Kind;

/// One entry.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name.
    pub name: OsString,
    /// The number that it shows.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
}

/// An open directory. Its entries are taken when it is read from the start: offsets stay what they
/// were, whatever happens to the directory.
#[derive(Debug, Default)]
pub struct Listing {
    items: Mutex<Arc<Vec<Item>>>,
}

impl Tree {
    /// The entries of an open directory, taken anew at its start.
    pub fn items(&self, id: u64, listing: &Listing, offset: u64) -> Result<Arc<Vec<Item>>> {
        let mut items = listing.items.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            *items = Arc::new(self.list(id)?);
        }
        Ok(Arc::clone(&items))
    }

    /// What an entry is, not counted as known to the kernel yet.
    pub fn peek(&self, parent: u64, name: &OsStr) -> Result<Option<Attr>> {
        self.find(parent, name, 0)
    }

    /// The kernel has been told of an entry.
    pub fn met(&self, id: u64) {
        if let Ok(node) = self.lock().node_mut(id) {
            node.lookups += 1;
        }
    }

    fn list(&self, id: u64) -> Result<Vec<Item>> {
        let mut state = self.lock();
        // Kinds are read from the database.
        state.settle()?;
        let node = state.node(id)?;
        let parent = node.place.as_ref().map_or(ROOT, |place| place.parent);
        let mut items = vec![dot(".", id), dot("..", parent)];
        let path = node.base.clone();
        if let Some(ino) = node.delta {
            for name in state.store.names(ino).or_errno()? {
                let id = state.shown_as(name.ino)?;
                items.push(Item { name: name.name, id, kind: name.kind });
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
                items.push(Item { name: entry.name, id: entry.ino, kind: entry.kind });
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

fn dot(name: &str, id: u64) -> Item {
    Item { name: name.into(), id, kind: Kind::Dir }
}
