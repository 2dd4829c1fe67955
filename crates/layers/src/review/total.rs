//! The selected changes in numbers.

use std::fmt;

use super::line::Line;
use crate::diff::{Count, Side};

/// Numbers of changed files and lines. Directories do not count.
///
/// Displayed as `3 files changed, 10 lines added, 2 removed, 1 file deleted`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    files: usize,
    deleted: usize,
    added: usize,
    removed: usize,
}

impl Total {
    /// Sums up changes.
    pub fn of(lines: &[Line<'_>]) -> Self {
        let is_dir = |side: Option<&Side>| matches!(side, None | Some(Side::Dir));
        let mut total = Self::default();
        for line in lines {
            let is_removed = is_dir(line.change.after.as_ref());
            if is_removed && is_dir(line.change.before.as_ref()) {
                continue;
            }
            total.files += 1;
            total.deleted += usize::from(is_removed);
            if let Count::Lines { added, removed } = line.count {
                total.added += added;
                total.removed += removed;
            }
        }
        total
    }

    /// Formats changes that would be lost: `3 changed files and 1 deletion`.
    pub fn losses(self) -> String {
        let Self { files, deleted, .. } = self;
        let changed = files - deleted;
        let deletions = format!("{deleted} deletion{}", plural(deleted));
        match (changed, deleted) {
            (0, 1..) => deletions,
            (_, 0) => format!("{changed} changed file{}", plural(changed)),
            _ => format!("{changed} changed file{} and {deletions}", plural(changed)),
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, deleted, added, removed } = *self;
        write!(f, "{files} file{} changed", plural(files))?;
        if added + removed > 0 {
            write!(f, ", {added} line{} added, {removed} removed", plural(added))?;
        }
        if deleted > 0 {
            write!(f, ", {deleted} file{} deleted", plural(deleted))?;
        }
        Ok(())
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
