//! Database as a base. It is the same view as a mounted one, read by path.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::base::{Base, Content, Listed, Stat};
use super::node::Body;
use super::{Attr, Directory, ROOT, Result, Tree};
use crate::store::{Store, StoreError};

/// Opens the base of a layer: a directory, or another database with its own base.
pub fn open_base(path: &Path) -> std::result::Result<Arc<dyn Base>, StoreError> {
    open_below(path, 0)
}

/// Maximum number of stacked databases, because one can name itself as its base.
const DEEPEST: usize = 64;

fn open_below(path: &Path, depth: usize) -> std::result::Result<Arc<dyn Base>, StoreError> {
    if !path.is_file() {
        return Ok(Arc::new(Directory::open(path)?));
    }
    if depth >= DEEPEST {
        return Err(StoreError::Damaged {
            what: "more than 64 databases are stacked on each other".into(),
        });
    }
    let store = Store::open_below(path)?;
    let base = store.base().map(|base| open_below(base, depth + 1)).transpose()?;
    let tree = Tree::new(store, base).map_err(io::Error::from)?;
    Ok(Arc::new(Lower { tree: Arc::new(tree) }))
}

/// Database as a base.
#[derive(Debug)]
struct Lower {
    tree: Arc<Tree>,
}

/// File that is held with one lookup, as by the kernel.
#[derive(Debug)]
struct Held {
    tree: Arc<Tree>,
    attr: Attr,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.attr.id != ROOT {
            self.tree.forget(self.attr.id, 1);
        }
    }
}

impl Lower {
    /// Walks down a path and holds each directory until the next is found.
    fn walk(&self, path: &Path) -> Result<Held> {
        let attr = self.tree.attr(ROOT)?;
        let mut at = Held { tree: Arc::clone(&self.tree), attr };
        for name in path {
            let attr = self.tree.lookup(at.attr.id, name)?.ok_or(Errno::NOENT)?;
            at = Held { tree: Arc::clone(&self.tree), attr };
        }
        Ok(at)
    }
}

impl Base for Lower {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let held = self.walk(path)?;
        Ok(Stat { ino: held.attr.id, inode: held.attr.inode })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        let held = self.walk(path)?;
        let items = self.tree.items(held.attr.id, 0)?;
        // Skip `.` and `..`.
        let listed = items.iter().skip(2);
        Ok(listed
            .map(|item| Listed { name: item.name.clone(), ino: item.id, kind: item.kind })
            .collect())
    }

    fn target(&self, path: &Path) -> io::Result<OsString> {
        Ok(self.tree.target(self.walk(path)?.attr.id)?)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Content>> {
        let held = self.walk(path)?;
        self.tree.open(held.attr.id)?;
        let below = match &self.tree.lock().node(held.attr.id)?.body {
            Body::Base(content) => Some(Arc::clone(content)),
            _ => None,
        };
        Ok(Arc::new(Opened { held, below }))
    }

    fn xattrs(&self, path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let held = self.walk(path)?;
        let names = self.tree.xattrs(held.attr.id)?.into_iter();
        let value = |name: OsString| Ok((name.clone(), self.tree.xattr(held.attr.id, &name)?));
        names.map(value).collect()
    }
}

/// Open file of the lower database.
#[derive(Debug)]
struct Opened {
    held: Held,
    /// Its content, if it is still in a base further below.
    below: Option<Arc<dyn Content>>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.held.tree.release(self.held.attr.id);
    }
}

impl Content for Opened {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.below {
            Some(content) => content.read_at(buffer, offset),
            None => Ok(self.held.tree.read(self.held.attr.id, offset, buffer)?),
        }
    }

    fn file(&self) -> Option<&File> {
        self.below.as_ref().and_then(|content| content.file())
    }

    fn size(&self) -> u64 {
        self.held.attr.inode.size
    }
}
