//! Changes that run code on the host later, and are therefore held back until they are named.

use std::io::Read;
use std::path::Path;

use sandbox_core::inspect;
use sandbox_git::layout::is_obeyed_in_bare;

use super::open::OpenRoot;
use crate::RelPath;
use crate::diff::{Change, Side};

/// Largest `package.json` that is read.
const MAX_JSON: u64 = 1 << 20;
const BARE: &str = "git would use its directory as a repository and apply its configuration";

impl OpenRoot {
    /// Returns the reason why a file at this path runs code later, if it does.
    pub(super) fn later(&self, path: &RelPath) -> Option<String> {
        let bare = || is_obeyed_in_bare(path.as_path(), |path| self.exists(path)).then_some(BARE);
        let why = inspect::runs_later(path.as_path()).or_else(bare)?;
        (!self.is_harmless(path)).then(|| why.to_owned())
    }

    /// Returns the reason why a change runs code later. Directories never do.
    pub fn change_later(&self, change: &Change) -> Option<String> {
        if change.is_of_directory() { None } else { self.later(&change.path) }
    }

    /// Returns true for a `package.json` that defines no scripts.
    fn is_harmless(&self, path: &RelPath) -> bool {
        let Some(name) = path.as_path().file_name() else { return false };
        let changed = self.changes.get(path);
        let Some(change) = changed.filter(|change| matches!(change.after, Some(Side::File { .. })))
        else {
            return false;
        };
        let Ok(content) = self.layer.open(&change.path) else { return false };
        let mut text = Vec::new();
        let read = content.take(MAX_JSON).read_to_end(&mut text);
        read.is_ok() && inspect::is_harmless(name, &text)
    }

    /// Returns true if something exists at a path after an apply, from the host or from the layer.
    fn exists(&self, path: &Path) -> bool {
        let Some(path) = RelPath::new(path) else { return false };
        match self.changes.get(&path) {
            Some(change) => change.after.is_some(),
            None => self.host.stat(&path).is_ok_and(|found| found.is_some()),
        }
    }
}
