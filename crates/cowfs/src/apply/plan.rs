//! What an apply will do, decided before the first write.

use std::collections::{BTreeMap, BTreeSet};

use super::planner::Planner;
use super::step::Step;
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::Change;
use crate::host::Kind;

/// What is to be applied.
#[derive(Default)]
pub struct Wish {
    /// Only these and what is below them; everything when empty.
    pub paths: Vec<RelPath>,
    /// Everything, whatever is named beside.
    pub whole: bool,
    /// Exactly these paths, and nothing below them.
    pub exact: bool,
    /// Files put together from hunks that somebody chose; without the others of their paths.
    pub chosen: BTreeMap<RelPath, Vec<u8>>,
}

/// Everything an apply will do, and what it will not.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order they are done: what goes, deepest first; then what comes, parents first.
    pub steps: Vec<Step>,
    /// Contents that are neither in the layer nor on the host, by root and path.
    pub made: BTreeMap<(usize, RelPath), Made>,
    /// What is applied only when it is named.
    pub held: Vec<Left>,
    /// What cannot be applied, because the host changed meanwhile.
    pub conflicts: Vec<Left>,
    /// What is never applied.
    pub refused: Vec<Left>,
    /// What lands in another form than the layer has it.
    pub notes: Vec<Left>,
}

/// A content that is put together here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What will be on the host.
    pub bytes: Vec<u8>,
    /// What of the layer went into it: the ancestor of whatever comes next.
    pub ancestor: Vec<u8>,
}

/// A path that is left as it is, or not taken as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The number of the root.
    pub root: usize,
    /// Where.
    pub path: RelPath,
    /// Why.
    pub why: String,
}

impl Plan {
    /// How many files and links go and nothing comes in their place.
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
        self.held.extend(other.held);
        self.conflicts.extend(other.conflicts);
        self.refused.extend(other.refused);
        self.notes.extend(other.notes);
    }
}

/// Plans one root.
///
/// # Errors
/// Only where the layer or the host cannot be read; what cannot be applied is part of the plan.
pub fn plan(
    target: &Target<'_>,
    changes: &[Change],
    truncated: bool,
    wish: &Wish,
    later: &dyn Fn(&RelPath) -> Option<String>,
) -> Result<Plan, ApplyError> {
    let mut planner = Planner::new(target, wish, later);
    let by_path: BTreeMap<&RelPath, &Change> =
        changes.iter().map(|change| (&change.path, change)).collect();
    for change in changes.iter().filter(|change| wish.selects(&change.path)) {
        if truncated && change.after.is_none() {
            planner.refuse(change, "more files go than can be listed");
            continue;
        }
        planner.change(change)?;
    }
    planner.parents(&by_path)?;
    planner.keep_full_dirs(&by_path);
    Ok(planner.finish())
}

impl Wish {
    /// Whether a path is among those that were asked for.
    pub fn selects(&self, path: &RelPath) -> bool {
        let below = |top: &RelPath| {
            path == top || (!self.exact && path.as_path().starts_with(top.as_path()))
        };
        self.whole || self.paths.is_empty() || self.paths.iter().any(below)
    }

    /// Whether a path was named so that no doubt is left: itself, or hunk by hunk, or by a
    /// directory above it for which `is_special` holds too.
    pub(super) fn names(&self, path: &RelPath, is_special: impl Fn(&RelPath) -> bool) -> bool {
        let named = |top: &RelPath| {
            path == top || (path.as_path().starts_with(top.as_path()) && is_special(top))
        };
        self.chosen.contains_key(path) || self.paths.iter().any(named)
    }
}
