//! Lookup of names, and dropping of nodes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::base::Stat;
use super::node::{Node, NodeName};
use super::{Attr, OrErrno, ROOT, Result, State, Tree};
use crate::store::Rest;

impl Tree {
    /// Returns the attributes of an entry; counts as a lookup.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<Option<Attr>> {
        self.find(parent, name, 1)
    }

    /// Returns the attributes of an entry and counts `count` lookups.
    pub(super) fn find(&self, parent: u64, name: &OsStr, count: u64) -> Result<Option<Attr>> {
        if name.len() > 255 {
            return Err(Errno::NAMETOOLONG);
        }
        let (base, path) = {
            let mut state = self.lock();
            if let Some(id) = state.find_own(parent, name)? {
                return state.meet(id, count).map(Some);
            }
            match (state.base.clone(), state.path_below(parent, name)?) {
                (Some(base), Some(path)) => (base, path),
                _ => return Ok(None),
            }
        };
        // Access the disk without the lock; the kernel locks the directory, so the name cannot
        // change.
        let Some(stat) = found(base.stat(&path))? else { return Ok(None) };
        let mut state = self.lock();
        let id = state.adopt(NodeName::new(parent, name), &path, &stat)?;
        state.meet(id, count).map(Some)
    }

    /// Drops `count` lookups of a file.
    pub fn forget(&self, id: u64, count: u64) {
        let mut state = self.lock();
        if let Some(node) = state.nodes.get_mut(&id) {
            node.lookups = node.lookups.saturating_sub(count);
        }
        state.trim(id);
    }
}

/// Turns a missing path into `None`.
pub(super) fn found<T>(result: std::io::Result<T>) -> Result<Option<T>> {
    match result.or_errno() {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

impl State {
    pub(super) fn load_root(&mut self) -> Result<()> {
        let inode = self.store.inode(ROOT).or_errno()?.ok_or(Errno::IO)?;
        let mut node = Node::new(inode, None);
        node.delta = Some(ROOT);
        node.lookups = 1;
        node.base = match self.store.rest(ROOT).or_errno()? {
            _ if self.base.is_none() => None,
            Rest::Default => Some(Path::new("").into()),
            Rest::Opaque => None,
            Rest::From(path) => Some(path.into()),
        };
        self.nodes.insert(ROOT, node);
        Ok(())
    }

    /// Finds a name in the layer or in the base.
    pub(super) fn find(&mut self, parent: u64, name: &OsStr) -> Result<Option<u64>> {
        if let Some(id) = self.find_own(parent, name)? {
            return Ok(Some(id));
        }
        let Some(path) = self.path_below(parent, name)? else { return Ok(None) };
        match found(self.base()?.stat(&path))? {
            Some(stat) => self.adopt(NodeName::new(parent, name), &path, &stat).map(Some),
            None => Ok(None),
        }
    }

    /// Finds a name in the layer.
    pub(super) fn find_own(&mut self, parent: u64, name: &OsStr) -> Result<Option<u64>> {
        let Some(dir) = self.node(parent)?.delta else { return Ok(None) };
        match self.store.find(dir, name).or_errno()? {
            Some(ino) => self.load(ino, NodeName::new(parent, name)).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the path of a name in the base, unless it is whited out.
    pub(super) fn path_below(&self, parent: u64, name: &OsStr) -> Result<Option<PathBuf>> {
        let Some(dir) = &self.node(parent)?.base else { return Ok(None) };
        let path = dir.join(name);
        Ok((!self.store.is_gone(&path).or_errno()?).then_some(path))
    }

    /// Returns the node of an inode of the layer, loading it if needed.
    fn load(&mut self, ino: u64, place: NodeName) -> Result<u64> {
        let id = match self.shown.get(&ino) {
            Some(id) => *id,
            None if self.nodes.get(&ino).is_some_and(|node| node.delta == Some(ino)) => ino,
            None => self.store.shown(ino).or_errno()?,
        };
        if let Some(node) = self.nodes.get_mut(&id) {
            node.place = Some(place);
            return Ok(id);
        }
        let inode = self.store.inode(ino).or_errno()?.ok_or(Errno::IO)?;
        let rest = if inode.is_dir() { self.rest_of(ino, &place)? } else { None };
        let mut node = Node::new(inode, Some(place));
        (node.delta, node.base) = (Some(ino), rest.map(PathBuf::into_boxed_path));
        if id != ino {
            self.shown.insert(ino, id);
        }
        self.nodes.insert(id, node);
        Ok(id)
    }

    /// Returns the source of a directory's other entries: its stored row, else the directory of the
    /// same name below its parent's source.
    fn rest_of(&self, ino: u64, place: &NodeName) -> Result<Option<PathBuf>> {
        if self.base.is_none() {
            return Ok(None);
        }
        Ok(match self.store.rest(ino).or_errno()? {
            Rest::Opaque => None,
            Rest::From(path) => Some(path),
            Rest::Default => {
                let below = self.path_below(place.parent, &place.name)?;
                below.filter(|path| self.is_base_dir(path))
            }
        })
    }

    pub(super) fn is_base_dir(&self, path: &Path) -> bool {
        let stat = self.base.as_ref().map(|base| base.stat(path));
        matches!(stat, Some(Ok(stat)) if stat.inode.is_dir())
    }

    /// Returns the node of a file of the base, or of its copy in the layer.
    fn adopt(&mut self, place: NodeName, path: &Path, stat: &Stat) -> Result<u64> {
        if let Some(node) = self.nodes.get_mut(&stat.ino) {
            node.place = Some(place);
            if node.delta.is_none() {
                node.base = Some(path.into());
            }
            return Ok(stat.ino);
        }
        let linked = !stat.inode.is_dir() && stat.inode.nlink > 1;
        if linked && let Some(ino) = self.store.copied(stat.ino).or_errno()? {
            return self.load(ino, place);
        }
        let mut node = Node::new(stat.inode, Some(place));
        if let Some(count) = self.unlinked.get(&stat.ino) {
            node.inode.nlink = node.inode.nlink.saturating_sub(*count).max(1);
        }
        node.base = Some(path.into());
        self.nodes.insert(stat.ino, node);
        Ok(stat.ino)
    }

    /// Counts lookups of a node and returns its attributes.
    pub(super) fn meet(&mut self, id: u64, count: u64) -> Result<Attr> {
        self.node_mut(id)?.lookups += count;
        self.catch_up(id)?;
        self.attr(id)
    }

    /// Drops a node without users, and deletes its file if it has no name.
    pub(super) fn trim(&mut self, id: u64) {
        let Some(node) = self.nodes.get(&id).filter(|node| node.is_idle() && id != ROOT) else {
            return;
        };
        if node.inode.nlink == 0 {
            // After a failure the file stays an orphan, deleted when the database is next opened.
            let _ = self.bury(id);
        } else if node.dirty {
            return;
        }
        if let Some(ino) = self.nodes.remove(&id).and_then(|node| node.delta) {
            self.shown.remove(&ino);
        }
    }

    fn bury(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        let (Some(ino), inode, orphan) = (node.delta, node.inode, node.orphan) else {
            return Ok(());
        };
        self.orphans.retain(|waiting| *waiting != id);
        self.store.drop_inode(ino, id, &inode).or_errno()?;
        if orphan { self.store.drop_orphan(ino).or_errno() } else { Ok(()) }
    }
}
