//! Tree of a database: its own entries merged over those of the base.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

use super::base::{BaseEntry, origin_key};
use super::rows::{DIR, FILE, Inode, ROOT, SYMLINK, TYPE};
use super::{Database, damaged};
use crate::change::{LayerError, Node};
use crate::store::{BASE, LOWER};

/// Source of an entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntrySource {
    /// An inode of the database.
    Delta(i64),
    /// A path in the base.
    Base(PathBuf),
}

/// Entry of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Path without a leading slash; empty for the root.
    pub path: PathBuf,
    /// Attributes.
    pub inode: Inode,
    /// Source of the entry.
    pub source: EntrySource,
    /// For a directory, the path in the base that holds its other entries.
    pub merge: Option<PathBuf>,
    /// For a directory, the path in the base that would hold them, even if the base has none there
    /// now.
    pub behind: Option<PathBuf>,
}

/// Returns an entry of the database.
fn stored_entry(
    path: PathBuf,
    inode: Inode,
    ino: i64,
    merge: Option<PathBuf>,
    behind: Option<PathBuf>,
) -> TreeEntry {
    TreeEntry { path, inode, source: EntrySource::Delta(ino), merge, behind }
}

/// Maximum depth of a path, because the kernel accepts at most 4096 bytes (`PATH_MAX`).
const DEEPEST: usize = 2048;

/// Directories of a database and of its base that a walk has entered. Entering one twice is an
/// error, because a small database could otherwise cause a huge or endless walk.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    dirs: HashSet<i64>,
    bases: HashSet<PathBuf>,
}

impl Seen {
    pub(crate) fn enter(&mut self, dir: &TreeEntry) -> Result<(), LayerError> {
        if dir.path.components().count() > DEEPEST {
            return Err(damaged("directories are nested too deeply"));
        }
        let fresh = match &dir.source {
            EntrySource::Delta(ino) => self.dirs.insert(*ino),
            EntrySource::Base(_) => true,
        };
        if fresh && dir.merge.as_ref().is_none_or(|merge| self.bases.insert(merge.clone())) {
            return Ok(());
        }
        Err(damaged(format!("the directory `{}` is in two places", dir.path.display())))
    }
}

impl Database {
    /// Returns the root directory.
    pub fn root(&self) -> Result<TreeEntry, LayerError> {
        let inode = self.inode(ROOT)?;
        let behind = self.behind(ROOT, Some(Path::new("")));
        let merge = self.merge(behind.as_deref())?;
        Ok(TreeEntry {
            path: PathBuf::new(),
            inode,
            source: EntrySource::Delta(ROOT),
            merge,
            behind,
        })
    }

    /// Returns the entry at a path. Ignores `/` and `.`; a path with `..` is not found.
    pub fn find(&self, path: &Path) -> Result<Option<TreeEntry>, LayerError> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => plain.push(name),
                Component::ParentDir | Component::Prefix(_) => return Ok(None),
            }
        }
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = plain.ancestors().find_map(|above| dirs.get(above).cloned());
        let mut here = known.map_or_else(|| self.root(), Ok)?;
        let rest = plain.strip_prefix(&here.path).unwrap_or(&plain).to_owned();
        for name in &rest {
            let Some(child) = self.child(&here, name)? else { return Ok(None) };
            if child.inode.is_dir() {
                dirs.insert(child.path.clone(), child.clone());
            }
            here = child;
        }
        Ok(Some(here))
    }

    /// Returns the entries of a directory, in byte order.
    pub fn list(&self, dir: &TreeEntry) -> Result<Vec<TreeEntry>, LayerError> {
        let mut names: BTreeSet<OsString> = BTreeSet::new();
        if let EntrySource::Delta(ino) = dir.source {
            names.extend(self.names(ino).keys().cloned());
        }
        if let Some(merge) = &dir.merge {
            names.extend(self.base.list(merge)?);
        }
        let found = names.into_iter().map(|name| self.child(dir, &name));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns everything below a directory, parents before children.
    pub fn below(&self, dir: &TreeEntry) -> Result<Vec<TreeEntry>, LayerError> {
        let mut seen = Seen::default();
        let (mut found, mut left) = (Vec::new(), vec![dir.clone()]);
        while let Some(dir) = left.pop() {
            seen.enter(&dir)?;
            self.check_moved(&dir)?;
            let children = self.list(&dir)?;
            left.extend(children.iter().rev().filter(|child| child.inode.is_dir()).cloned());
            found.extend(children);
        }
        Ok(found)
    }

    /// Returns an entry of a directory.
    pub fn child(&self, dir: &TreeEntry, name: &OsStr) -> Result<Option<TreeEntry>, LayerError> {
        let path = dir.path.join(name);
        let stored = match dir.source {
            EntrySource::Delta(ino) => self.names(ino).get(name).copied(),
            EntrySource::Base(_) => None,
        };
        if let Some(ino) = stored {
            let inode = self.inode(ino)?;
            let at = dir.behind.as_ref().map(|behind| behind.join(name));
            let visible = at.as_deref().filter(|at| !self.is_gone(at));
            let behind = self.behind(ino, visible).filter(|_| inode.is_dir());
            let merge = self.merge(behind.as_deref())?;
            return Ok(Some(stored_entry(path, inode, ino, merge, behind)));
        }
        let at = dir.merge.as_ref().map(|merge| merge.join(name));
        let Some(at) = at.filter(|at| !self.is_gone(at)) else { return Ok(None) };
        let Some(found) = self.base.entry(&at)? else { return Ok(None) };
        // The file has several names and was changed under another one.
        if let Some(ino) = self.copy_of(&found) {
            let inode = self.inode(ino)?;
            return Ok(Some(stored_entry(path, inode, ino, None, None)));
        }
        let inode = found.inode;
        let merge = inode.is_dir().then(|| at.clone());
        let behind = merge.clone();
        Ok(Some(TreeEntry { path, inode, source: EntrySource::Base(at), merge, behind }))
    }

    /// Converts an entry to the form of a layer.
    pub fn node(&self, spot: &TreeEntry) -> Result<Node, LayerError> {
        let meta = spot.inode.meta();
        Ok(match spot.inode.mode & TYPE {
            // Compare with the recorded path, because the host may have changed since.
            DIR => Node::Dir { meta, opaque: spot.behind.as_deref() != Some(&spot.path) },
            FILE => Node::File { meta, size: spot.inode.size },
            SYMLINK => Node::Symlink { meta, target: self.link_target(spot)? },
            _ => Node::Special { meta },
        })
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn link_target(&self, spot: &TreeEntry) -> Result<OsString, LayerError> {
        match &spot.source {
            EntrySource::Delta(ino) => self.target(*ino),
            EntrySource::Base(at) => self.base.read_link(at),
        }
    }

    /// Opens the content of a regular file.
    pub fn read(&self, spot: &TreeEntry) -> Result<Box<dyn Read + Send>, LayerError> {
        if spot.inode.mode & TYPE != FILE {
            return Err(damaged(format!("`{}` is not a regular file", spot.path.display())));
        }
        match &spot.source {
            EntrySource::Delta(ino) => self.content(*ino, spot.inode.size),
            EntrySource::Base(at) => self.base.content(at),
        }
    }

    /// Returns the extended attributes of an entry, with their values.
    pub fn attributes(&self, spot: &TreeEntry) -> Result<Vec<(OsString, Vec<u8>)>, LayerError> {
        match &spot.source {
            EntrySource::Delta(ino) => self.stored_xattrs(*ino),
            EntrySource::Base(at) => self.base.xattrs(at),
        }
    }

    /// Returns the inode number that programs see, equal for all names of the file.
    pub(crate) fn number(&self, spot: &TreeEntry) -> Result<u64, LayerError> {
        Ok(match &spot.source {
            EntrySource::Base(at) => self.base.entry(at)?.map_or(0, |found| found.number),
            EntrySource::Delta(ino) => {
                match self.rows.shown.get(ino).map(|shown| shown.cast_unsigned()) {
                    // AgentFS also stores numbers that are valid only within one of its processes.
                    Some(shown) if shown & BASE != 0 && shown & LOWER != 0 => {
                        shown & !(BASE | LOWER)
                    }
                    Some(shown) if shown & BASE != 0 => shown,
                    _ => ino.cast_unsigned(),
                }
            }
        })
    }

    /// Returns the inode that a hard-linked file of the base was copied up to.
    pub(super) fn copy_of(&self, found: &BaseEntry) -> Option<i64> {
        let several = found.inode.links > 1 && !found.inode.is_dir();
        several.then(|| self.rows.copies.get(&origin_key(found.number)).copied()).flatten()
    }

    pub(super) fn inode(&self, ino: i64) -> Result<Inode, LayerError> {
        let found = self.rows.inodes.get(&ino).copied();
        found.ok_or_else(|| damaged(format!("a name refers to missing inode {ino}")))
    }

    pub(super) fn names(&self, ino: i64) -> &super::rows::Names {
        static NONE: super::rows::Names = BTreeMap::new();
        self.rows.names.get(&ino).unwrap_or(&NONE)
    }

    pub(super) fn is_gone(&self, at: &Path) -> bool {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return false };
        self.rows.whiteouts.get(parent).is_some_and(|names| names.contains(name))
    }

    /// Returns the path in the base that a directory of the database merges with.
    fn behind(&self, ino: i64, same: Option<&Path>) -> Option<PathBuf> {
        match self.rows.merges.get(&ino) {
            Some(moved) => moved.clone(),
            None => same.map(Path::to_owned),
        }
    }

    /// Returns the path if the base has a directory there.
    fn merge(&self, behind: Option<&Path>) -> Result<Option<PathBuf>, LayerError> {
        let Some(at) = behind else { return Ok(None) };
        Ok(self.base.stat(at)?.is_some_and(Inode::is_dir).then(|| at.to_owned()))
    }
}
