//! Plan of an apply, decided before the first write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::step::Step;
use crate::RelPath;
use crate::host::Kind;

/// Selection of changes to apply.
#[derive(Default)]
pub struct Wish {
    /// Only these paths and everything below them. Empty selects everything.
    pub paths: Vec<RelPath>,
    /// True to select everything, regardless of `paths`.
    pub whole: bool,
    /// True to select exactly these paths, without entries below them.
    pub exact: bool,
    /// Files composed of the hunks that the user chose.
    pub chosen: BTreeMap<RelPath, Chosen>,
    /// Chosen repositories, by git directory.
    pub repositories: Vec<PathBuf>,
    /// Paths in repositories, which are planned as units.
    pub apart: BTreeSet<RelPath>,
    /// Paths of these that are removed.
    pub gone: BTreeSet<RelPath>,
}

/// Chosen part of a file's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Text with the chosen hunks.
    pub bytes: Vec<u8>,
    /// Executable bit, which is chosen separately.
    pub executable: bool,
}

/// Plan of an apply.
#[derive(Debug, Default)]
pub struct Plan {
    /// Steps in execution order: removals deepest first, then additions parents first.
    pub steps: Vec<Step>,
    /// Content that is neither in the layer nor on the host, by root and path.
    pub made: BTreeMap<(usize, RelPath), Made>,
    /// Private files with such content, by root and path.
    pub copies: BTreeMap<(usize, RelPath), PathBuf>,
    /// Changes that are held back until they are named.
    pub held: Vec<Left>,
    /// Changes that conflict with changes on the host.
    pub conflicts: Vec<Left>,
    /// Changes that are never applied.
    pub refused: Vec<Left>,
    /// Changes that are applied in another form than in the layer.
    pub notes: Vec<Left>,
}

/// Content composed by the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Content for the host.
    pub bytes: Vec<u8>,
    /// Layer's version of it, which is the ancestor of the next merge.
    pub ancestor: Vec<u8>,
}

/// Path that is left out, or applied in another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Number of the root.
    pub root: usize,
    /// Path.
    pub path: RelPath,
    /// Reason.
    pub why: String,
}

impl Plan {
    /// Returns the number of files and links that are removed without replacement.
    pub fn deletions(&self) -> usize {
        let made: BTreeSet<_> = self.made_paths().collect();
        let gone = self.steps.iter().filter(|step| {
            let file = step.before.as_ref().is_some_and(|was| was.kind != Kind::Dir);
            file && step.is_removal() && !made.contains(&(step.root, &step.path))
        });
        gone.count()
    }

    fn made_paths(&self) -> impl Iterator<Item = (usize, &RelPath)> {
        let made = self.steps.iter().filter(|step| !step.is_removal());
        made.map(|step| (step.root, &step.path))
    }

    /// Adds the plan of another root.
    pub fn absorb(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.made.extend(other.made);
        self.copies.extend(other.copies);
        self.held.extend(other.held);
        self.conflicts.extend(other.conflicts);
        self.refused.extend(other.refused);
        self.notes.extend(other.notes);
    }
}

impl Wish {
    /// Returns true when a path is selected.
    pub(crate) fn selects(&self, path: &RelPath) -> bool {
        let below = |top: &RelPath| {
            path == top || (!self.exact && path.as_path().starts_with(top.as_path()))
        };
        self.whole || self.paths.is_empty() || self.paths.iter().any(below)
    }

    /// Returns true when a path was named unambiguously: itself, by its hunks, or by a directory above it for which
    /// `is_special` is true too.
    pub(super) fn names(&self, path: &RelPath, is_special: impl Fn(&RelPath) -> bool) -> bool {
        let named = |top: &RelPath| {
            path == top || (path.as_path().starts_with(top.as_path()) && is_special(top))
        };
        self.chosen.contains_key(path) || self.paths.iter().any(named)
    }
}
