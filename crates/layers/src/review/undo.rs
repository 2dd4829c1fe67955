//! Reverting the last apply.

use super::error::ReviewError;
use super::open::{OpenRoot, Review};
use crate::apply::{self, Changed, Journal, Status, Target, Undone};

impl Review {
    /// Returns the journal of the last apply that has not been reverted.
    pub fn last_apply(&self) -> Result<Option<Journal>, ReviewError> {
        let journals = Journal::list(&self.session.applied_dir())?;
        Ok(journals.into_iter().rev().find(|journal| journal.status != Status::Undone))
    }

    /// Reverts an apply.
    pub fn undo(&self, journal: &mut Journal, changed: Changed) -> Result<Undone, ReviewError> {
        let roots = self.bare_roots()?;
        let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
        let keep = &mut |journal: &Journal, base| self.keep(&roots, journal, base);
        Ok(apply::undo(journal, &targets, changed, keep)?)
    }
}
