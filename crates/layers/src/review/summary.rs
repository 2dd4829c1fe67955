//! Size of a session's changes, in numbers and as one line.

use std::fmt;
use std::path::{Path, PathBuf};

use sandbox_core::inspect;

use super::error::ReviewError;
use super::open::open_base;
use crate::apply::Journal;
use crate::diff::{Change, Count, Side, View, compare};
use crate::git;
use crate::session::LayerSession;

/// Size of a session's changes, and the files among them that run code later.
#[derive(Debug, Default)]
pub struct Summary {
    /// Files and links.
    pub files: usize,
    /// Refs, `HEAD`s and indexes of repositories.
    pub git: usize,
    /// Directories.
    pub dirs: usize,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// Paths on the host, with the program that runs each.
    pub later: Vec<(PathBuf, &'static str)>,
    /// True if there are more changes than were counted.
    pub truncated: bool,
}

/// Maximum number of files whose lines are counted, to limit the time.
const COUNTED: usize = 2000;

impl Summary {
    /// No changes.
    pub const EMPTY: Self = Self {
        files: 0,
        git: 0,
        dirs: 0,
        added: 0,
        removed: 0,
        later: Vec::new(),
        truncated: false,
    };

    /// Sums up the changes of a session.
    pub fn of(session: &LayerSession) -> Result<Self, ReviewError> {
        let mut summary = Self::default();
        let interrupted = Journal::interrupted(&session.applied_dir()).ok().flatten();
        for number in 0..session.record().roots.len() {
            let host = open_base(session, number)?;
            let (layer, record) = (session.layer(number)?, session.base_record(number)?);
            let mut changes = compare(layer.as_ref(), &host, &record)?;
            if let Some(journal) = &interrupted {
                changes.list.retain(|change| !journal.is_temp(&change.path));
            }
            let view = View { layer: layer.as_ref(), host: &host, record: &record };
            let sorted = git::sort(&view, &changes.list)?;
            for change in &sorted.files {
                summary.add(change, &view, host.path())?;
            }
            summary.git += sorted.repositories.iter().map(git::Repository::count).sum::<usize>();
            summary.truncated |= changes.truncated;
        }
        Ok(summary)
    }

    /// Returns true if no file or repository changed.
    pub fn is_empty(&self) -> bool {
        self.files + self.git == 0
    }

    fn add(&mut self, change: &Change, view: &View<'_>, base: &Path) -> Result<(), ReviewError> {
        let is_dir = |side: &Option<Side>| matches!(side, Some(Side::Dir));
        if is_dir(&change.after) || change.after.is_none() && is_dir(&change.before) {
            self.dirs += 1;
            return Ok(());
        }
        let why = change.after.as_ref().and_then(|_| inspect::runs_later(change.path.as_path()));
        self.later.extend(why.map(|why| (base.join(change.path.as_path()), why)));
        self.files += 1;
        if self.files > COUNTED {
            self.truncated = true;
        } else if let Count::Lines { added, removed } = view.count(change)? {
            self.added += added;
            self.removed += removed;
        }
        Ok(())
    }
}

/// `2 files changed, 3 lines added, 1 removed, and 2 refs of git`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, git, dirs, added, removed, .. } = *self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        if self.is_empty() && dirs > 0 {
            let word = if dirs == 1 { "directory" } else { "directories" };
            return write!(f, "{dirs} {word} changed");
        }
        write!(f, "{files} file{} changed", plural(files))?;
        if added + removed > 0 {
            let more = if self.truncated { "more than " } else { "" };
            write!(f, ", {more}{added} line{} added, {removed} removed", plural(added))?;
        }
        if git > 0 {
            write!(f, ", and {git} ref{} of git", plural(git))?;
        }
        Ok(())
    }
}
