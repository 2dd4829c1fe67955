//! Which changes run code later on the host.

use std::io::Read;

use sandbox_core::guard;
use sandbox_cowfs::RelPath;
use sandbox_cowfs::diff::{Change, Side};

use super::OpenRoot;

/// A description of a package is read up to this size.
const MAX_JSON: u64 = 1 << 20;

impl OpenRoot {
    /// Who runs a file of this path, if somebody does.
    pub(crate) fn later(&self, path: &RelPath) -> Option<String> {
        let why = guard::runs_later(path.as_path()).or_else(|| self.bare(path))?;
        (!self.is_harmless(path)).then(|| why.to_owned())
    }

    /// The same, for changes that are worth a line: directories run nothing.
    pub(crate) fn change_later(&self, change: &Change) -> Option<String> {
        let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
        if is_dir(&change.before) && is_dir(&change.after) {
            return None;
        }
        self.later(&change.path)
    }

    /// A `package.json` runs something only by what stands in it, before or after.
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
        read.is_ok() && guard::is_harmless(name, &text)
    }

    /// A directory shaped like a repository is one for git, whatever it is called.
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

    /// Whether a name will be in a directory: on the host or in the layer.
    fn has(&self, dir: &std::path::Path, name: &str) -> bool {
        let Some(path) = RelPath::new(dir.join(name)) else { return false };
        match self.changes.get(&path) {
            Some(change) => change.after.is_some(),
            None => self.host.stat(&path).is_ok_and(|found| found.is_some()),
        }
    }
}
