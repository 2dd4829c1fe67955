//! Review operations. They block, so they run on the thread pool.

use std::path::Path;

use axum::http::StatusCode;
use sandbox_git::scratch::ScratchGit;
use sandbox_layers::RelPath;
use sandbox_layers::apply::{Changed, Plan, Undone};
use sandbox_layers::review::{
    self, Counted, DiffReport, LeftOut, LeftReport, OpenRoot, Patch, PlanReport, Review, Selected,
    deletions_to_confirm,
};

use super::Call;
use crate::http::answer::Refused;
use crate::http::wire::{Applied, Apply, Blocking, Discard, Discarded, Problem, Reverted, Undo};

/// Maximum size of a patch.
const LARGEST: usize = 64 << 20;

/// Returns the roots of a session with their commits, the selected part of them, and git.
fn open(
    call: &Call<'_>,
    paths: &[String],
) -> Result<(Vec<OpenRoot>, Selected, ScratchGit), Refused> {
    let mut roots = call.review.roots()?;
    let git = call.review.git(&call.shared.search_path);
    review::inspect(&git, &mut roots)?;
    let selected = Selected::of(paths, &roots, call.review.name(), call.project)?;
    Ok((roots, selected, git))
}

/// Describes changes as data.
pub(super) fn diff(call: &Call<'_>, paths: &[String]) -> Result<DiffReport, Refused> {
    let (roots, selected, _) = open(call, paths)?;
    let lines = review::lines(&roots, &selected, Counted::Yes)?;
    Ok(DiffReport::new(call.review.name(), &lines, &roots, &selected))
}

/// Returns changes as a patch. Changes that a patch cannot express are listed in comments, which `git apply` ignores.
pub(super) fn patch(call: &Call<'_>, paths: &[String]) -> Result<Vec<u8>, Refused> {
    let (roots, selected, _) = open(call, paths)?;
    let lines = review::lines(&roots, &selected, Counted::No)?;
    let patch = Patch::of(&lines);
    let repositories = roots.iter().flat_map(|root| selected.repositories(root));
    let left_out = patch.left_out.iter().map(|left| match left {
        LeftOut::Directory(dir) => dir.as_path(),
        LeftOut::Special(at) | LeftOut::Git(at) => at.as_path(),
    });
    let missing = repositories.map(|repository| repository.dir.as_path()).chain(left_out);
    let mut text: Vec<u8> = missing.flat_map(|one| comment(one).into_bytes()).collect();
    for file in patch.files() {
        text.extend(file?);
        if text.len() > LARGEST {
            let mut wrong = Problem::new("too_large", "the patch is larger than 64 MiB");
            wrong.hint = Some("limit it to a directory or a file with `?path=`".into());
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, wrong));
        }
    }
    Ok(text)
}

/// Formats a path as a one-line comment.
fn comment(path: &Path) -> String {
    format!("# not in this patch: {}\n", path.to_string_lossy().escape_debug())
}

/// Applies changes, unless something blocks them.
pub(super) fn apply(call: &Call<'_>, asked: &Apply) -> Result<Applied, Refused> {
    call.review.check_stopped()?;
    let resumed = !asked.dry_run && resume(&call.review)?;
    if asked.resume {
        return Ok(Applied { applied: 0, resumed, plan: None });
    }
    let (roots, selected, git) = open(call, &asked.paths)?;
    let plan = review::plan(&roots, &selected, &git)?;
    let report = PlanReport::new(&plan, &roots);
    if !asked.dry_run {
        check(&plan, &report, &roots, asked)?;
    }
    let applied = if asked.dry_run || plan.steps.is_empty() {
        0
    } else {
        call.review.perform(&roots, &plan, &mut |_, _| {})?
    };
    Ok(Applied { applied, resumed, plan: Some(report) })
}

/// Completes an apply or undo that was interrupted. Returns true when there was one.
fn resume(review: &Review) -> Result<bool, Refused> {
    let Some(mut journal) = review.interrupted()? else { return Ok(false) };
    review.resume(&mut journal, &mut |_, _| {})?;
    Ok(true)
}

/// Refuses a plan that leaves something out or deletes much, unless the caller agreed to that.
fn check(
    plan: &Plan,
    report: &PlanReport,
    roots: &[OpenRoot],
    asked: &Apply,
) -> Result<(), Refused> {
    let blocking = Blocking { held: report.held.clone(), conflicts: report.conflicts.clone() };
    let refused = |code, message: &str, hint: &str| {
        let (hint, changes) = (Some(hint.into()), Some(Box::new(blocking.clone())));
        Err(Problem { hint, changes, ..Problem::new(code, message) }.into())
    };
    if !asked.partial && !report.conflicts.is_empty() {
        let message = "nothing was applied: some changes conflict with the host";
        return refused("conflict", message, "set `\"partial\": true` to apply the rest");
    }
    if !asked.partial && !report.held.is_empty() {
        let message = "nothing was applied: some changes can run code later";
        let hint =
            "to apply them, list them in `paths`; to apply only the rest, set `\"partial\": true`";
        return refused("held", message, hint);
    }
    match deletions_to_confirm(plan, roots) {
        Some(count) if !asked.yes => {
            let message = format!("nothing was applied: {count} files would be deleted");
            let hint = Some("set `\"yes\": true` to confirm".into());
            Err(Problem { hint, ..Problem::new("many_deletions", message) }.into())
        }
        _ => Ok(()),
    }
}

/// Reverts the last apply.
pub(super) fn undo(review: &Review, asked: &Undo) -> Result<Reverted, Refused> {
    review.check_stopped()?;
    let Some(mut journal) = review.last_apply()? else {
        return Err(Problem::new("no_apply", "there is no apply to revert").into());
    };
    let policy = if asked.partial { Changed::LeaveOut } else { Changed::Stop };
    let report = |left: &[(usize, RelPath)]| -> Vec<LeftReport> {
        left.iter()
            .map(|(root, path)| review.left(*root, path, "changed since the apply"))
            .collect()
    };
    match review.undo(&mut journal, policy)? {
        Undone::Done { left, count } => Ok(Reverted { reverted: count, left: report(&left) }),
        Undone::Refused(left) => {
            let message = "nothing was reverted: some files changed since the apply";
            let hint = Some("set `\"partial\": true` to revert the rest".into());
            let changes = Some(Box::new(Blocking { held: Vec::new(), conflicts: report(&left) }));
            Err(Problem { hint, changes, ..Problem::new("changed", message) }.into())
        }
    }
}

/// Discards changes.
pub(super) fn discard(call: &mut Call<'_>, asked: &Discard) -> Result<Discarded, Refused> {
    call.review.check_stopped()?;
    call.review.check_whole()?;
    let roots = call.review.roots()?;
    let selected = Selected::of(&asked.paths, &roots, call.review.name(), call.project)?;
    let files = review::lines(&roots, &selected, Counted::No)?.len();
    let repositories: usize = roots.iter().map(|root| selected.repositories(root).len()).sum();
    let discarded = files + repositories;
    if discarded > 0 {
        call.review.discard(&selected)?;
    }
    Ok(Discarded { discarded })
}
