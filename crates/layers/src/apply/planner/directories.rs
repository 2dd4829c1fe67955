//! Directories around the paths that are applied.

use std::collections::{BTreeMap, BTreeSet};

use super::Planner;
use crate::RelPath;
use crate::apply::ApplyError;
use crate::apply::expected::Expected;
use crate::apply::plan::Left;
use crate::apply::step::{Goal, Step};
use crate::diff::{Change, Side};
use crate::host::Kind;

impl Planner<'_> {
    /// Adds the parent directories of new files. A directory that the layer created is included. One that the host
    /// deleted is recreated for a file that is named, and is a conflict otherwise, like one that is not a directory on
    /// the host.
    pub(super) fn parents(
        &mut self,
        changes: &BTreeMap<&RelPath, &Change>,
    ) -> Result<(), ApplyError> {
        let makes = |steps: &Vec<Step>| steps.iter().any(|step| step.after.is_some());
        let comes: Vec<RelPath> = self
            .steps
            .iter()
            .filter(|(_, steps)| makes(steps))
            .map(|(path, _)| path.clone())
            .collect();
        // Directories that exist or will exist, so that each is checked once in a deep tree.
        let mut ready = BTreeSet::new();
        for path in comes {
            let above = path.as_path().ancestors().skip(1);
            let above = above.take_while(|dir| !ready.contains(*dir)).filter_map(RelPath::new);
            for dir in above.collect::<Vec<_>>().into_iter().rev() {
                if let Some(why) = self.lacks(&dir, &path, changes)? {
                    self.steps.remove(&path);
                    self.plan.conflicts.push(Left { root: self.target.number, path, why });
                    break;
                }
                ready.insert(dir.as_path().to_path_buf());
            }
        }
        Ok(())
    }

    /// Returns the reason for which a path's directory does not exist and will not be created.
    fn lacks(
        &mut self,
        dir: &RelPath,
        path: &RelPath,
        changes: &BTreeMap<&RelPath, &Change>,
    ) -> Result<Option<String>, ApplyError> {
        let shown = dir.as_path().display();
        let no_dir = || Some(format!("`{shown}` is not a directory on the host"));
        if let Some(steps) = self.steps.get(dir) {
            let made = steps.iter().any(|step| step.after == Some(Goal::Dir));
            return Ok(if made { None } else { no_dir() });
        }
        let there = self.target.host.stat(dir).map_err(|error| ApplyError::at(dir, error))?;
        let change = changes.get(dir).filter(|change| change.after == Some(Side::Dir));
        match (there, change) {
            (Some(found), _) if found.kind == Kind::Dir => return Ok(None),
            (Some(_), _) => return Ok(no_dir()),
            (None, Some(change)) if !change.meanwhile => {
                self.push(change, Some(Goal::Dir), Expected::Nothing)?;
            }
            // The parents of a file in the layer are in the layer too.
            (None, _) if self.wish.names(path, |_| true) => {
                let (path, after, odd) = (dir.clone(), Some(Side::Dir), Vec::new());
                let again = Change { path, before: None, after, meanwhile: true, mode: None, odd };
                self.push(&again, Some(Goal::Dir), Expected::Nothing)?;
            }
            (None, _) => {
                let why = format!("its directory `{shown}` was deleted on the host");
                return Ok(Some(format!("{why}; name the path to recreate it")));
            }
        }
        Ok(if self.steps.contains_key(dir) { None } else { no_dir() })
    }

    /// Keeps directories that contain an entry which stays.
    pub(super) fn keep_full_dirs(&mut self, changes: &BTreeMap<&RelPath, &Change>) {
        let going = |steps: &BTreeMap<RelPath, Vec<Step>>, path: &RelPath| {
            steps.get(path).is_some_and(|steps| steps[0].is_removal())
        };
        let stays: Vec<RelPath> = changes
            .values()
            .filter(|change| change.before.is_some() && !going(&self.steps, &change.path))
            .filter(|change| !self.wish.gone.contains(&change.path))
            .map(|change| change.path.clone())
            .collect();
        for path in stays {
            for dir in path.as_path().ancestors().skip(1).filter_map(RelPath::new) {
                if !going(&self.steps, &dir) {
                    continue;
                }
                let replaced = self.steps.remove(&dir).is_some_and(|steps| steps.len() > 1);
                let why = format!("kept, because `{}` in it is kept", path.as_path().display());
                let left = Left { root: self.target.number, path: dir, why };
                if replaced { self.plan.conflicts.push(left) } else { self.stays.push(left) }
            }
        }
    }
}
