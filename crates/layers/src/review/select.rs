//! Selection of changes: paths that the caller names → paths below the roots of a session.

use std::path::{Component, Path, PathBuf};

use super::error::ReviewError;
use super::open::OpenRoot;
use crate::RelPath;
use crate::apply::Wish;
use crate::git::Repository;

/// Selected part of each root.
pub struct Selected {
    /// True if no path is named, which selects everything.
    all: bool,
    /// Named roots, or named paths below one.
    named: Vec<(usize, Option<RelPath>)>,
}

impl Selected {
    /// Finds the root of each path. Relative paths start at `directory`.
    pub fn of(
        words: &[impl AsRef<Path>],
        roots: &[OpenRoot],
        session: &str,
        directory: &Path,
    ) -> Result<Self, ReviewError> {
        let mut named = Vec::new();
        for word in words {
            let path = plain(&directory.join(word));
            let inside = roots.iter().filter_map(|root| {
                path.strip_prefix(root.host.path()).ok().map(|rest| (root.number, rest))
            });
            // The deepest root that contains it.
            let found = inside.min_by_key(|(_, rest)| rest.components().count());
            let Some((root, rest)) = found else {
                let session = session.to_owned();
                return Err(ReviewError::Elsewhere { path, session });
            };
            named.push((root, RelPath::new(rest)));
        }
        Ok(Self { all: words.is_empty(), named })
    }

    /// Returns true if no path is named.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Returns the request for applying the selection to a root; `None` if nothing in the root is selected.
    pub fn wish(&self, root: usize) -> Option<Wish> {
        let here = || self.named.iter().filter(|(number, _)| *number == root);
        if !self.all && here().count() == 0 {
            return None;
        }
        let whole = self.all || here().any(|(_, path)| path.is_none());
        let paths = here().filter_map(|(_, path)| path.clone()).collect();
        Some(Wish { paths, whole, ..Wish::default() })
    }

    /// Returns the named paths. For a named root, returns every change at its top level.
    pub(super) fn tops(&self, roots: &[OpenRoot]) -> Vec<(usize, RelPath)> {
        let mut tops = Vec::new();
        for (number, path) in &self.named {
            if let Some(path) = path {
                tops.push((*number, path.clone()));
                continue;
            }
            let root = roots.iter().find(|root| root.number == *number);
            let changed = root.into_iter().flat_map(|root| &root.changes.list);
            let first = changed.filter_map(|change| change.path.as_path().iter().next());
            tops.extend(first.filter_map(|name| Some((*number, RelPath::new(name)?))));
        }
        tops.sort();
        tops.dedup();
        tops
    }

    /// Returns the selected repositories of a root.
    pub fn repositories<'r>(&self, root: &'r OpenRoot) -> Vec<&'r Repository> {
        root.repositories.iter().filter(|one| self.meets(root.number, &one.dir)).collect()
    }

    /// Returns true if the selection covers a repository: itself, something in it, or a directory above it.
    fn meets(&self, root: usize, dir: &Path) -> bool {
        let near = |(number, top): &(usize, Option<RelPath>)| {
            *number == root
                && top.as_ref().is_none_or(|top| {
                    dir.starts_with(top.as_path()) || top.as_path().starts_with(dir)
                })
        };
        self.all || self.named.iter().any(near)
    }

    /// Returns true if a path is selected.
    pub fn has(&self, root: usize, path: &RelPath) -> bool {
        let below = |(number, top): &(usize, Option<RelPath>)| {
            *number == root
                && top.as_ref().is_none_or(|top| path.as_path().starts_with(top.as_path()))
        };
        self.all || self.named.iter().any(below)
    }
}

/// Resolves `.` and `..` without accessing the filesystem, because a named path may no longer exist.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
