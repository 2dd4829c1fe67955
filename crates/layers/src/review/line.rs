//! The selected changes of a session, one by one.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::ReviewError;
use super::open::OpenRoot;
use super::select::Selected;
use crate::diff::{Change, Count, Side};

/// Change with everything that a reader needs to judge it.
pub struct Line<'r> {
    /// Root that contains it.
    pub root: &'r OpenRoot,
    /// Change.
    pub change: &'r Change,
    /// Size of the change.
    pub count: Count,
    /// Reason why it runs code later.
    pub later: Option<String>,
}

/// Counting of changed lines, which requires reading every file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Lines are counted.
    Yes,
    /// No file is read.
    No,
}

impl Line<'_> {
    /// Returns the letter of its kind.
    pub fn letter(&self) -> char {
        Status::of(self.change).letter()
    }
}

/// Kind of a change, as git distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Only the session has it.
    Added,
    /// Only the host has it.
    Deleted,
    /// Both have a file, or both have a link.
    Modified,
    /// The session has something of another type.
    Replaced,
}

impl Status {
    /// Returns the kind of a change.
    pub fn of(change: &Change) -> Self {
        match (&change.before, &change.after) {
            (None, _) => Self::Added,
            (_, None) => Self::Deleted,
            (Some(Side::File { .. }), Some(Side::File { .. }))
            | (Some(Side::Symlink { .. }), Some(Side::Symlink { .. })) => Self::Modified,
            _ => Self::Replaced,
        }
    }

    /// Returns the letter that git uses: `A`, `D`, `M` or `T`.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Deleted => 'D',
            Self::Modified => 'M',
            Self::Replaced => 'T',
        }
    }
}

/// Lists the selected changes of all roots.
pub fn lines<'r>(
    roots: &'r [OpenRoot],
    selected: &Selected,
    counted: Counted,
) -> Result<Vec<Line<'r>>, ReviewError> {
    let mut lines = Vec::new();
    for root in roots {
        let view = root.view();
        for change in root.files.iter().filter(|change| selected.has(root.number, &change.path)) {
            let count = match counted {
                Counted::Yes => view.count(change)?,
                Counted::No => Count::Nothing,
            };
            let later = root.change_later(change);
            lines.push(Line { root, change, count, later });
        }
    }
    Ok(lines)
}
