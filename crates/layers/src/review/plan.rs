//! The plan of an apply, for files and repositories together.

use std::collections::BTreeSet;

use sandbox_git::scratch::ScratchGit;

use super::error::ReviewError;
use super::line::Status;
use super::open::{OpenRoot, Review};
use super::repository::{self, Effect};
use super::select::Selected;
use crate::RelPath;
use crate::apply::{self, ApplyError, Goal, Plan, Step, Wish};
use crate::git::Repository;
use crate::host::{self, Kind};

/// Number of deletions that need no confirmation.
const FEW: usize = 100;
/// Number of deletions below which they never count as most of a tree.
const A_FEW: usize = 10;

/// Plans an apply of everything that is selected.
pub fn plan(
    roots: &[OpenRoot],
    selected: &Selected,
    git: &ScratchGit,
) -> Result<Plan, ReviewError> {
    let mut plan = Plan::default();
    for root in roots {
        let Some(mut wish) = selected.wish(root.number) else { continue };
        let repositories = selected.repositories(root).into_iter();
        wish.repositories = repositories.map(|repository| repository.dir.clone()).collect();
        plan.absorb(plan_root(root, wish, git)?);
    }
    Ok(plan)
}

impl Review {
    /// Plans an apply of the chosen changes in one root. Compares the root again, because the host may have changed
    /// while the user was asked.
    pub fn plan_chosen(
        &self,
        root: &mut OpenRoot,
        wish: Wish,
        git: &ScratchGit,
    ) -> Result<Plan, ReviewError> {
        self.compare(root)?;
        repository::inspect(git, std::slice::from_mut(root))?;
        Ok(plan_root(root, wish, git)?)
    }
}

/// Plans files, and each repository as a unit: removed repositories first, the others last.
fn plan_root(root: &OpenRoot, mut wish: Wish, git: &ScratchGit) -> Result<Plan, ApplyError> {
    let changes = &root.changes;
    let apart = changes.list.iter().map(|change| &change.path);
    wish.apart = apart.filter(|path| !root.is_file(path.as_path())).cloned().collect();
    let target = root.target();
    // With `exact`, only paths that the user chose count as named.
    let names = |path: &RelPath| wish.exact || wish.paths.contains(path);
    let (mut first, mut last) = (Plan::default(), Plan::default());
    for repository in root.repositories.iter().filter(|one| wish.repositories.contains(&one.dir)) {
        let part = names_part(&wish, repository);
        let meant = |path: &RelPath| !part || wish.selects(path);
        let plan = repository.plan(git, &target, &names, &meant)?;
        if repository.gone.is_empty() {
            last.absorb(plan);
        } else {
            first.absorb(plan);
        }
    }
    wish.gone = first.steps.iter().map(|step| step.path.clone()).collect();
    let later = |path: &_| root.later(path);
    if !wish.exact || !wish.paths.is_empty() {
        first.absorb(apply::plan(&target, &changes.list, changes.truncated, &wish, &later)?);
    }
    // Both plans may create the directories above a new repository.
    let made: BTreeSet<&RelPath> =
        first.steps.iter().filter(|one| makes_dir(one)).map(|one| &one.path).collect();
    last.steps.retain(|step| !makes_dir(step) || !made.contains(&step.path));
    first.absorb(last);
    Ok(first)
}

/// Returns true if single refs of a repository are named, so that the rest of it is not selected.
fn names_part(wish: &Wish, repository: &Repository) -> bool {
    let refs = repository.dir.join("refs");
    let named = wish.paths.iter().any(|path| path.as_path().starts_with(&refs));
    named && !wish.exact && !wish.whole
}

fn makes_dir(step: &Step) -> bool {
    step.before.is_none() && step.after == Some(Goal::Dir)
}

impl Step {
    /// Returns the kind of change that the step makes.
    pub fn status(&self) -> Status {
        match (&self.before, &self.after) {
            (None, _) => Status::Added,
            (_, None) => Status::Deleted,
            _ => Status::Modified,
        }
    }
}

/// Returns the steps to show, with a description of those that change a ref. Omits internal files of git.
pub fn steps<'p>(plan: &'p Plan, roots: &[OpenRoot]) -> Vec<(&'p Step, String)> {
    let base = |root: usize| roots.iter().find(|found| found.number == root);
    let words = |step: &Step| match base(step.root)?.effect(step.path.as_path()) {
        Effect::Outside => Some(String::new()),
        Effect::Visible(words) => Some(words),
        Effect::Internal => None,
    };
    plan.steps.iter().filter_map(|step| Some((step, words(step)?))).collect()
}

/// Returns the number of deleted files if it requires a confirmation: more than a hundred, or most of a tree.
pub fn deletions_to_confirm(plan: &Plan, roots: &[OpenRoot]) -> Option<usize> {
    let count = plan.deletions();
    let most = || roots.iter().any(|root| is_most(plan, root));
    (count > FEW || (count >= A_FEW && most())).then_some(count)
}

/// Returns true if more than half of the files of a root are deleted. Stops counting as soon as that is decided, so
/// that the cost depends on the number of deletions.
fn is_most(plan: &Plan, root: &OpenRoot) -> bool {
    let gone = plan.steps.iter().filter(|step| {
        let file = step.before.as_ref().is_some_and(|was| was.kind != Kind::Dir);
        step.root == root.number && file && step.is_removal()
    });
    let gone = gone.count();
    gone > 0 && !host::has_more_files(&root.host, 2 * gone)
}
