//! Layer of a database: its changes on top of the base.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;

use super::view::{EntrySource, Seen, TreeEntry};
use super::{Database, damaged};
use crate::RelPath;
use crate::change::{Layer, LayerEntry, LayerError, Listing, Node};

impl Layer for Database {
    fn entries(&self) -> Result<Vec<LayerEntry>, LayerError> {
        let mut walk = Walk { database: self, entries: Vec::new(), seen: Seen::default() };
        walk.all()?;
        walk.other_names()?;
        // Parents before children, names in byte order: the order of paths by component.
        walk.entries.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(walk.entries)
    }

    fn listing(&self) -> Result<Listing, LayerError> {
        let entries = self.entries()?;
        let known: HashSet<&Path> = entries.iter().map(|entry| entry.path.as_path()).collect();
        let whiteouts = self.rows.whiteouts.iter();
        let paths = whiteouts.flat_map(|(dir, names)| names.iter().map(|name| dir.join(name)));
        let over_nothing = paths.filter(|path| !known.contains(path.as_path()));
        let over_nothing = over_nothing.filter_map(RelPath::new).collect();
        Ok(Listing { entries, over_nothing })
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn Read + Send>, LayerError> {
        self.read(&self.entry(path)?)
    }

    fn xattrs(&self, path: &RelPath) -> Result<Vec<OsString>, LayerError> {
        let found = self.attributes(&self.entry(path)?)?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    }

    fn is_copy(&self, path: &RelPath) -> Result<bool, LayerError> {
        let spot = self.entry(path)?;
        let copy = match spot.source {
            EntrySource::Delta(ino) => self.rows.copies.values().any(|copy| *copy == ino),
            EntrySource::Base(_) => true,
        };
        Ok(copy && !self.gone_numbers()?.contains(&self.number(&spot)?))
    }
}

impl Database {
    /// Returns the inode numbers of all files that were removed or moved from their path in the
    /// base.
    fn gone_numbers(&self) -> Result<&HashSet<u64>, LayerError> {
        if let Some(gone) = self.gone.get() {
            return Ok(gone);
        }
        let whiteouts = self.rows.whiteouts.iter();
        let mut left: Vec<_> = whiteouts
            .flat_map(|(parent, names)| names.iter().map(move |name| parent.join(name)))
            .collect();
        let mut gone = HashSet::new();
        while let Some(path) = left.pop() {
            let Some(found) = self.base.entry(&path)? else { continue };
            if gone.insert(found.number) && found.inode.is_dir() {
                left.extend(self.base.list(&path)?.iter().map(|name| path.join(name)));
            }
        }
        Ok(self.gone.get_or_init(|| gone))
    }

    fn entry(&self, path: &RelPath) -> Result<TreeEntry, LayerError> {
        self.find(path.as_path())?.ok_or_else(|| LayerError::Io {
            path: path.as_path().to_owned(),
            source: io::Error::from(io::ErrorKind::NotFound),
        })
    }
}

struct Walk<'d> {
    database: &'d Database,
    entries: Vec<LayerEntry>,
    seen: Seen,
}

impl Walk<'_> {
    fn all(&mut self) -> Result<(), LayerError> {
        let mut left = vec![self.database.root()?];
        while let Some(dir) = left.pop() {
            self.seen.enter(&dir)?;
            self.database.check_moved(&dir)?;
            let in_place = dir.merge.as_deref() == Some(dir.path.as_path());
            match (&dir.source, in_place) {
                (EntrySource::Delta(ino), true) => self.changed(*ino, &dir, &mut left)?,
                _ => self.whole(&dir, &mut left)?,
            }
        }
        Ok(())
    }

    /// Visits a directory that merges with the base's at the same path: stored entries and
    /// deletions.
    fn changed(
        &mut self,
        ino: i64,
        dir: &TreeEntry,
        left: &mut Vec<TreeEntry>,
    ) -> Result<(), LayerError> {
        for name in self.database.names(ino).keys() {
            if let Some(child) = self.database.child(dir, name)? {
                self.add(child, left)?;
            }
        }
        self.gone(dir, Some(ino))
    }

    /// Visits all entries of a directory that the base does not have at this path.
    fn whole(&mut self, dir: &TreeEntry, left: &mut Vec<TreeEntry>) -> Result<(), LayerError> {
        for child in self.database.list(dir)? {
            self.add(child, left)?;
        }
        Ok(())
    }

    /// Adds the deletions in a directory of the base and below those of its subdirectories that the
    /// database does not hold: other tools delete without copying the directory up.
    fn gone(&mut self, dir: &TreeEntry, ino: Option<i64>) -> Result<(), LayerError> {
        let top = dir.path.as_path();
        let here = self.database.rows.whiteouts.range(top.to_owned()..);
        for (parent, names) in here.take_while(|(parent, _)| parent.starts_with(top)) {
            let first = parent.strip_prefix(top).ok().and_then(|below| below.components().next());
            let stored = |name: &std::ffi::OsStr| {
                ino.is_some_and(|ino| self.database.names(ino).contains_key(name))
            };
            if first.is_some_and(|first| stored(first.as_os_str()))
                || self.hidden_above(top, parent)
            {
                continue;
            }
            for name in names.iter().filter(|name| first.is_some() || !stored(name)) {
                self.lost(&parent.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns true when `parent` or a directory between it and `top` is deleted.
    fn hidden_above(&self, top: &Path, parent: &Path) -> bool {
        let between = parent.ancestors().take_while(|at| *at != top);
        between.into_iter().any(|at| self.database.is_gone(at))
    }

    /// Adds names that only the base has, of files that were changed under another name. Finding
    /// them means walking the base, so that happens only if such files exist.
    fn other_names(&mut self) -> Result<(), LayerError> {
        let rows = &self.database.rows;
        let mut stored: HashMap<i64, u64> = HashMap::new();
        for ino in rows.names.values().flat_map(|names| names.values()) {
            *stored.entry(*ino).or_default() += 1;
        }
        let more = |ino: &&i64| {
            let names = stored.get(ino).copied().unwrap_or(0);
            // The links of a directory count its subdirectories.
            let inode = rows.inodes.get(ino);
            inode.is_some_and(|inode| !inode.is_dir() && inode.links > names)
        };
        if !rows.copies.values().any(|ino| more(&ino)) {
            return Ok(());
        }
        let known: HashSet<_> =
            self.entries.iter().map(|entry| entry.path.as_path().to_owned()).collect();
        for spot in self.database.below(&self.database.root()?)? {
            let copied =
                matches!(spot.source, EntrySource::Delta(_)) && !known.contains(&spot.path);
            if copied && !spot.inode.is_dir() {
                let node = self.database.node(&spot)?;
                self.entries.push(LayerEntry { path: rel(&spot.path)?, node });
            }
        }
        Ok(())
    }

    fn lost(&mut self, path: &Path) -> Result<(), LayerError> {
        // A whiteout without a file of the base hides nothing.
        if self.database.base.stat(path)?.is_some() {
            let path = rel(path)?;
            self.entries.push(LayerEntry { path, node: Node::Gone });
        }
        Ok(())
    }

    fn add(&mut self, child: TreeEntry, left: &mut Vec<TreeEntry>) -> Result<(), LayerError> {
        let node = self.database.node(&child)?;
        self.entries.push(LayerEntry { path: rel(&child.path)?, node });
        if child.inode.is_dir() {
            left.push(child);
        }
        Ok(())
    }
}

fn rel(path: &Path) -> Result<RelPath, LayerError> {
    RelPath::new(path).ok_or_else(|| damaged(format!("invalid path `{}`", path.display())))
}
