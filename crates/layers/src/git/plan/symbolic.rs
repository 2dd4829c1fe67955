//! Symbolic refs. None may dangle after an apply, because `git fsck` rejects that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandbox_git::changes::{RefChange, with_changes};
use sandbox_git::refs::{self, RefValue};

use super::{Taken, Taker};
use crate::apply::ApplyError;

/// Maximum depth of symbolic refs in git.
const MAX_DEPTH: usize = 5;

type Refs = BTreeMap<String, RefValue>;

impl<'t> Taker<'t> {
    /// Leaves out symbolic refs whose target would be missing, and deletions of targets that are still in use. `HEAD`
    /// may name a branch that does not exist yet.
    pub(super) fn leave_dangling(
        &mut self,
        taken: &mut Taken<'t>,
        waiting: &mut BTreeSet<&'t str>,
    ) -> Result<(), ApplyError> {
        if !taken.refs.iter().any(|change| !matches!(change.after, Some(RefValue::Id(_)))) {
            return Ok(());
        }
        let dir = &self.repository.dir;
        let failed = |source| ApplyError::Host { path: dir.clone(), source };
        let host = refs::all(self.target.host, dir).map_err(failed)?;
        // Leaving one out can remove the target of another.
        while let Some((change, target)) = dangling(&host, &taken.refs) {
            let inner = Path::new(&change.name);
            if change.after.is_some() && waiting.contains(target.as_str()) {
                self.note(inner, format!("unchanged until `{target}` is applied"));
            } else if change.after.is_some() {
                self.refuse(inner, format!("points to `{target}`, which does not exist"));
            } else {
                self.refuse(inner, format!("`{target}` points to it"));
            }
            waiting.insert(&change.name);
            taken.refs.retain(|other| other.name != change.name);
        }
        Ok(())
    }
}

/// Finds a change that leaves a symbolic ref without a target. Returns the ref with its target, or a deleted target
/// with the host's ref.
fn dangling<'t>(host: &Refs, taken: &[&'t RefChange]) -> Option<(&'t RefChange, String)> {
    let changed = taken.iter().copied().filter(|change| change.name.starts_with("refs/"));
    let refs = with_changes(host, changed);
    let change = |name: &str| taken.iter().copied().find(|change| change.name == name);
    refs.keys().find_map(|name| {
        let missing = missing(&refs, name)?;
        if let Some(change) = change(name) {
            return Some((change, missing));
        }
        let gone = change(&missing).filter(|change| change.after.is_none())?;
        Some((gone, name.clone()))
    })
}

/// Follows a ref and returns the missing ref at its end, if there is one.
fn missing(refs: &Refs, name: &str) -> Option<String> {
    let mut name = name;
    for _ in 0..=MAX_DEPTH {
        match refs.get(name) {
            Some(RefValue::Id(_)) => return None,
            Some(RefValue::Symbolic(next)) => name = next,
            None => return Some(name.to_owned()),
        }
    }
    Some(name.to_owned())
}
