//! Changes that run code later on the host, which holds them back until they are named.

use std::io::Read;
use std::path::Path;

use sandbox_core::inspect;

use super::open::OpenRoot;
use crate::RelPath;
use crate::diff::{Change, Side};

/// Largest `package.json` that is read.
const MAX_JSON: u64 = 1 << 20;

impl OpenRoot {
    /// Returns the reason for which a file of this path runs code later, if it does.
    pub(super) fn later(&self, path: &RelPath) -> Option<String> {
        let why = inspect::runs_later(path.as_path()).or_else(|| self.bare(path))?;
        (!self.is_harmless(path)).then(|| why.to_owned())
    }

    /// Returns the reason for which a change runs code later. Directories run nothing.
    pub fn change_later(&self, change: &Change) -> Option<String> {
        let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
        if is_dir(&change.before) && is_dir(&change.after) {
            return None;
        }
        self.later(&change.path)
    }

    /// Returns true for a `package.json` whose content runs nothing.
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

    /// Finds a file that git obeys because its directory is shaped like a repository, whatever its name.
    fn bare(&self, path: &RelPath) -> Option<&'static str> {
        let path = path.as_path();
        for dir in path.ancestors().skip(1) {
            let inside = path.strip_prefix(dir).ok()?;
            let obeyed = inside == "config" || inside.starts_with("hooks") || inside == "commondir";
            if obeyed
                && self.has(dir, "HEAD")
                && (self.has(dir, "refs") || self.has(dir, "commondir"))
            {
                return Some("git would take its directory for a repository and obey it");
            }
        }
        None
    }

    /// Returns true when an apply leaves a name in a directory: from the host or from the layer.
    fn has(&self, dir: &Path, name: &str) -> bool {
        let Some(path) = RelPath::new(dir.join(name)) else { return false };
        match self.changes.get(&path) {
            Some(change) => change.after.is_some(),
            None => self.host.stat(&path).is_ok_and(|found| found.is_some()),
        }
    }
}
