//! Selection of hunks and of the executable bit in one file.

use super::open::OpenRoot;
use crate::apply::Chosen;
use crate::diff::{Change, Hunk, LineDiff, Side};

/// Executable bit of a file, on the host and in the session.
#[derive(Debug, Clone, Copy)]
pub struct Bit {
    /// On the host.
    pub was: bool,
    /// In the session.
    pub will: bool,
}

/// Selected part of one file.
#[derive(Debug)]
pub enum Taken {
    /// No change.
    Nothing,
    /// All changes.
    Everything,
    /// The file with the selected hunks.
    Part(Chosen),
}

/// Hunks of a file that are selected one after the other.
pub struct HunkChoice<'d> {
    diff: &'d LineDiff<'d>,
    bit: Bit,
    executable: bool,
    /// Hunks that are not decided, the first one last.
    todo: Vec<Hunk>,
    taken: Vec<Hunk>,
    skipped: usize,
}

impl<'d> HunkChoice<'d> {
    /// Begins with the first hunk, after the choice of the executable bit.
    pub fn new(diff: &'d LineDiff<'d>, bit: Bit, executable: bool) -> Self {
        let todo = diff.hunks().into_iter().rev().collect();
        Self { diff, bit, executable, todo, taken: Vec::new(), skipped: 0 }
    }

    /// Returns the hunk to decide on, as a patch. Returns `None` after the last one.
    pub fn patch(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        let _ = self.diff.write(self.todo.last()?, &mut bytes);
        Some(bytes)
    }

    /// Takes or skips the hunk.
    pub fn decide(&mut self, take: bool) {
        let hunk = self.todo.pop();
        if take {
            self.taken.extend(hunk);
        } else {
            self.skipped += usize::from(hunk.is_some());
        }
    }

    /// Takes or skips this hunk and all that follow.
    pub fn decide_rest(&mut self, take: bool) {
        while !self.todo.is_empty() {
            self.decide(take);
        }
    }

    /// Replaces the hunk by smaller ones.
    pub fn split(&mut self) {
        if let Some(hunk) = self.todo.pop() {
            self.todo.extend(self.diff.split(&hunk).into_iter().rev());
        }
    }

    /// Returns the selection.
    pub fn finish(self) -> Taken {
        match (self.taken.is_empty(), self.skipped) {
            (true, _) if self.executable == self.bit.was => Taken::Nothing,
            (false, 0) if self.executable == self.bit.will => Taken::Everything,
            _ => Taken::Part(Chosen {
                bytes: self.diff.compose(&self.taken),
                executable: self.executable,
            }),
        }
    }
}

/// Returns true for a directory that is created or removed with its content.
pub fn comes_along(root: &OpenRoot, change: &Change) -> bool {
    let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
    let at = root.files.partition_point(|other| other.path <= change.path);
    let next = root.files.get(at);
    let full = next.is_some_and(|next| next.path.as_path().starts_with(change.path.as_path()));
    full && is_dir(&change.before) && is_dir(&change.after)
}
