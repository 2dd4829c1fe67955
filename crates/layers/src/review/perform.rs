//! Carrying out a plan, and completing an interrupted one.

use super::error::{ResumeError, ReviewError};
use super::open::{OpenRoot, Review, free_space};
use super::plan::steps;
use crate::apply::{
    self, ApplyError, Changed, Journal, Plan, Progress, Status, Step, Target, Undone,
};
use crate::host::Kind;

/// Interrupted apply or undo that was completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// Apply, with the number of its steps.
    Applied(usize),
    /// Undo.
    Undone(Undone),
}

impl Review {
    /// Applies a plan. Returns the number of changes, as [`steps`] counts them.
    pub fn perform(
        &self,
        roots: &[OpenRoot],
        plan: &Plan,
        progress: Progress<'_>,
    ) -> Result<usize, ReviewError> {
        self.check_space(roots, plan)?;
        let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
        let changes = steps(plan, roots).len();
        let applied = self.session.applied_dir();
        let mut journal = Journal::begin(&applied, plan, Some(changes), &targets)?;
        let keep = &mut |journal: &Journal, base| self.keep(roots, journal, base);
        apply::perform(&mut journal, &targets, progress, keep)?;
        Ok(changes)
    }

    /// Checks that there is space for new content and for the originals that it replaces.
    fn check_space(&self, roots: &[OpenRoot], plan: &Plan) -> Result<(), ApplyError> {
        let of = |root: usize| plan.steps.iter().filter(move |step| step.root == root);
        for root in roots {
            let needed: u64 = of(root.number).map(Step::bytes).sum();
            let free = free_space(root.host.path());
            if needed > free {
                let place = root.host.path().to_path_buf();
                return Err(ApplyError::NoSpace { place, needed, free });
            }
        }
        let saved = |step: &Step| {
            let file = step.before.as_ref().filter(|was| was.kind == Kind::File);
            file.map_or(0, |was| was.stamp.size)
        };
        let needed: u64 = plan.steps.iter().map(saved).sum();
        let place = self.session.dir().to_path_buf();
        let free = free_space(&place);
        if needed > free { Err(ApplyError::NoSpace { place, needed, free }) } else { Ok(()) }
    }

    /// Returns the journal of an interrupted apply or undo, if there is one.
    pub fn interrupted(&self) -> Result<Option<Journal>, ReviewError> {
        Ok(Journal::interrupted(&self.session.applied_dir())?)
    }

    /// Fails if an apply or an undo is incomplete, because it could not be completed or reverted afterwards.
    pub fn check_whole(&self) -> Result<(), ReviewError> {
        let Some(journal) = self.interrupted()? else { return Ok(()) };
        let (what, remedy) = self.remedy(&journal);
        Err(ReviewError::HalfDone { what, name: self.name().to_owned(), remedy })
    }

    /// Describes the interrupted operation, and returns the commands that complete or revert it.
    pub fn remedy(&self, journal: &Journal) -> (&'static str, String) {
        let name = self.name();
        if journal.status == Status::Undoing {
            return ("an undo", format!("`agent-sandbox undo -s {name}` completes it"));
        }
        let remedy = format!(
            "`agent-sandbox apply -s {name} --resume` completes it, `agent-sandbox undo -s {name}` reverts it"
        );
        ("an apply", remedy)
    }

    /// Completes an interrupted apply or undo. Reports progress for an apply.
    pub fn resume(
        &self,
        journal: &mut Journal,
        progress: Progress<'_>,
    ) -> Result<Resumed, ReviewError> {
        if journal.status == Status::Undoing {
            return self.undo(journal, Changed::LeaveOut).map(Resumed::Undone);
        }
        let roots = self.bare_roots()?;
        let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
        let keep = &mut |journal: &Journal, base| self.keep(&roots, journal, base);
        apply::resume(journal, &targets, progress, keep)
            .map_err(|error| ResumeError { session: self.name().to_owned(), error })?;
        Ok(Resumed::Applied(journal.steps.len()))
    }
}
