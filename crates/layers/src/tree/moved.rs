//! Copying of the base's entries that moved directories still show. Afterwards the layer does not
//! depend on them, and the base may lose them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Attr, OrErrno, ROOT, Result, State, Tree};
use crate::store::{Kind, Rest};

/// A moved directory that still depends on the base.
#[derive(Debug)]
pub struct Moved {
    /// Current path.
    pub path: PathBuf,
    /// Path in the base of its other entries.
    pub from: PathBuf,
    /// Error of the copy.
    pub source: io::Error,
}

/// Directory during the walk.
#[derive(Debug)]
struct Dir {
    id: u64,
    path: PathBuf,
    /// True when it and all its parents show the base's directory of the same path.
    in_place: bool,
}

impl Tree {
    /// Copies into the layer what moved directories show of the base. Returns those that could not
    /// be copied completely, which stay unchanged. The next call completes a killed one.
    pub(crate) fn take_in_moved(&self) -> Result<Vec<Moved>> {
        let mut failed = Vec::new();
        let mut left = vec![Dir { id: ROOT, path: PathBuf::new(), in_place: true }];
        // Nodes must stay in memory until the end, because paths are built from their parents.
        let mut held = Vec::new();
        while let Some(dir) = left.pop() {
            let from = self.moved_from(&dir)?;
            match from.as_deref().map(|from| self.take_in(&dir, from)) {
                None => left.extend(self.stored_dirs(&dir)?),
                Some(Ok(dirs)) => left.extend(dirs),
                Some(Err(error)) => {
                    left.extend(self.stored_dirs(&dir)?);
                    let from = from.unwrap_or_default();
                    failed.push(Moved { path: dir.path, from, source: error.into() });
                }
            }
            held.push(dir.id);
        }
        for id in held.into_iter().rev().filter(|id| *id != ROOT) {
            self.forget(id, 1);
        }
        Ok(failed)
    }

    /// Returns the path in the base of a directory's other entries, if it differs from its own
    /// path.
    fn moved_from(&self, dir: &Dir) -> Result<Option<PathBuf>> {
        let state = self.lock();
        let from = state.node(dir.id)?.base.as_deref();
        Ok(from.filter(|from| !dir.in_place || *from != dir.path).map(Path::to_owned))
    }

    /// Returns the subdirectories that the layer holds in a directory.
    fn stored_dirs(&self, dir: &Dir) -> Result<Vec<Dir>> {
        let (names, in_place) = {
            let mut state = self.lock();
            state.settle()?;
            let node = state.node(dir.id)?;
            let in_place = dir.in_place && node.base.as_deref() == Some(&dir.path);
            let Some(ino) = node.delta else { return Ok(Vec::new()) };
            (state.store.names(ino).or_errno()?, in_place)
        };
        let mut dirs = Vec::new();
        for named in names.into_iter().filter(|named| named.kind == Kind::Dir) {
            if let Some(attr) = self.lookup(dir.id, &named.name)? {
                dirs.push(Dir { id: attr.id, path: dir.path.join(&named.name), in_place });
            }
        }
        Ok(dirs)
    }

    /// Copies up every entry of a moved directory and detaches it from the base. Returns its
    /// subdirectories, whose own rows now name their source. So the view is unchanged after each
    /// step.
    fn take_in(&self, dir: &Dir, from: &Path) -> Result<Vec<Dir>> {
        if !self.lock().is_base_dir(from) {
            return Err(Errno::NOENT);
        }
        let names: Vec<OsString> =
            self.items(dir.id, 0)?.iter().skip(2).map(|item| item.name.clone()).collect();
        let mut dirs = Vec::new();
        for name in names {
            let Some(attr) = self.lookup(dir.id, &name)? else { continue };
            let owned = self.change(|state| state.own_as_found(&attr));
            if owned.is_err() || !attr.inode.is_dir() {
                self.forget(attr.id, 1);
            } else {
                dirs.push(Dir { id: attr.id, path: dir.path.join(&name), in_place: false });
            }
            if let Err(error) = owned {
                for dir in dirs {
                    self.forget(dir.id, 1);
                }
                return Err(error);
            }
        }
        self.change(|state| state.cut_off(dir.id))?;
        Ok(dirs)
    }
}

impl State {
    /// Copies a node up. A directory records the source of its entries.
    fn own_as_found(&mut self, attr: &Attr) -> Result<()> {
        let ino = self.own(attr.id)?;
        match self.node(attr.id)?.base.clone() {
            Some(base) if attr.inode.is_dir() => {
                self.store.put_rest(ino, &Rest::From(base.into())).or_errno()
            }
            _ => Ok(()),
        }
    }

    /// Detaches a directory from the base.
    fn cut_off(&mut self, id: u64) -> Result<()> {
        let ino = self.own(id)?;
        let place = self.node(id)?.place.clone();
        let rest = match place {
            Some(at) if self.below(at.parent, &at.name)?.is_some() => Rest::Opaque,
            _ => Rest::Default,
        };
        self.store.put_rest(ino, &rest).or_errno()?;
        self.node_mut(id)?.base = None;
        Ok(())
    }
}
