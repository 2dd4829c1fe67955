//! The plan of an apply, decided before the first write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::step::Step;
use crate::RelPath;
use crate::host::Kind;

/// Selection of changes to apply.
#[derive(Default)]
pub struct Wish {
    /// Only these and what is below them; everything when empty.
    pub paths: Vec<RelPath>,
    /// Everything, whatever is named beside.
    pub whole: bool,
    /// Exactly these paths, and nothing below them.
    pub exact: bool,
    /// Files put together from hunks that the user chose; without the others of their paths.
    pub chosen: BTreeMap<RelPath, Chosen>,
    /// Repositories that were chosen, by their git directories.
    pub repositories: Vec<PathBuf>,
    /// Paths of repositories, which are planned as units.
    pub apart: BTreeSet<RelPath>,
    /// Of these, what goes.
    pub gone: BTreeSet<RelPath>,
}

/// A part of what changed in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The text that the chosen hunks make.
    pub bytes: Vec<u8>,
    /// The executable bit, which is chosen separately.
    pub executable: bool,
}

/// Everything an apply will do, and what it will not.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order they are done: what goes, deepest first; then what comes, parents first.
    pub steps: Vec<Step>,
    /// Contents that are neither in the layer nor on the host, by root and path.
    pub made: BTreeMap<(usize, RelPath), Made>,
    /// Files of ours that hold such a content, by root and path.
    pub copies: BTreeMap<(usize, RelPath), PathBuf>,
    /// Changes that are applied only when they are named.
    pub held: Vec<Left>,
    /// Changes that cannot be applied, because the host changed meanwhile.
    pub conflicts: Vec<Left>,
    /// Changes that are never applied.
    pub refused: Vec<Left>,
    /// Changes that land in another form than the layer has them.
    pub notes: Vec<Left>,
}

/// A content that is put together here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Content for the host.
    pub bytes: Vec<u8>,
    /// The layer's part of it: the ancestor of the next change.
    pub ancestor: Vec<u8>,
}

/// A path that is left as it is, or not taken as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The number of the root.
    pub root: usize,
    /// The path.
    pub path: RelPath,
    /// Reason.
    pub why: String,
}

impl Plan {
    /// Counts the files and links that are removed and not replaced.
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
    /// Returns true when a path is among those that were asked for.
    pub(crate) fn selects(&self, path: &RelPath) -> bool {
        let below = |top: &RelPath| {
            path == top || (!self.exact && path.as_path().starts_with(top.as_path()))
        };
        self.whole || self.paths.is_empty() || self.paths.iter().any(below)
    }

    /// Returns true when a path was named so that no doubt is left: itself, or hunk by hunk, or by a
    /// directory above it for which `is_special` holds too.
    pub(super) fn names(&self, path: &RelPath, is_special: impl Fn(&RelPath) -> bool) -> bool {
        let named = |top: &RelPath| {
            path == top || (path.as_path().starts_with(top.as_path()) && is_special(top))
        };
        self.chosen.contains_key(path) || self.paths.iter().any(named)
    }
}
