//! `apply`: apply a session's changes to the project.

use std::path::Path;

use sandbox_git::scratch::ScratchGit;
use sandbox_layers::apply::{Left, Plan, Status};
use sandbox_layers::review::{
    self, OpenRoot, PlanReport, Resumed, Review, ReviewError, Selected, deletions_to_confirm,
};
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use super::hunks::Go;
use super::progress::Bar;
use super::{git, hunks, select, tell_interrupted, undo};
use crate::args::Flags;
use crate::args::changes::Apply;
use crate::cmd;
use crate::cmd::here;
use crate::cmd::sessions::freeze::freeze;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, and_more, ask};
use sandbox_linux::escape::{name, one_line};

/// Applies a session's changes, all or those at the named paths.
pub(crate) fn run(flags: &Flags, asked: &Apply, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = super::open("apply", None, flags, host)?;
    if let Err(error) = opened.check_stopped() {
        if !asked.live {
            return Err(in_use(error));
        }
        opened.freeze(&freeze(host))?;
    }
    if flags.dry_run {
        tell_interrupted(&opened, io)?;
    } else if resume(&opened, io)? && asked.resume {
        return Ok(0);
    }
    if asked.resume {
        io.say("no apply was interrupted");
        return Ok(0);
    }
    let mut roots = opened.roots()?;
    let git = git(&opened, host);
    review::inspect(&git, &mut roots)?;
    let selected = select(&asked.paths, &roots, &opened, flags, host)?;
    let here = here(flags, host);
    let plan = decide(&opened, &mut roots, &selected, &git, asked, &here, io)?;
    print(opened.name(), &plan, &roots, &here, flags, io);
    if flags.dry_run {
        return Ok(ExitCode::failed_if(!plan.conflicts.is_empty()).code());
    }
    if !plan.conflicts.is_empty() && !asked.partial {
        io.labelled(Tone::Bad, "error", "nothing was applied because of the conflicts above");
        io.hint("pass `--partial` to apply the rest, or restore the host's files and try again");
        return Ok(ExitCode::Failure.code());
    }
    if plan.steps.is_empty() {
        io.say(if asked.paths.is_empty() {
            "nothing to apply"
        } else {
            "nothing to apply at these paths"
        });
        return Ok(ExitCode::failed_if(!plan.conflicts.is_empty()).code());
    }
    if !agreed(&plan, &roots, asked.yes, io)? {
        io.say("nothing was applied");
        return Ok(ExitCode::Failure.code());
    }
    perform(&opened, &roots, &plan, io)?;
    Ok(ExitCode::failed_if(!plan.conflicts.is_empty()).code())
}

fn in_use(error: ReviewError) -> Failed {
    let hint = match &error {
        ReviewError::Up(name) => {
            format!(
                "stop it with `agent-sandbox down {name}`, or pass `--live` to apply while it runs"
            )
        }
        _ => "wait until it ends, or pass `--live` to apply while it runs".into(),
    };
    Failed { hint: Some(hint), ..Failed::from(error) }
}

/// Plans the apply for all roots. With `--interactive`, asks about each change first.
fn decide(
    opened: &Review,
    roots: &mut [OpenRoot],
    selected: &Selected,
    git: &ScratchGit,
    asked: &Apply,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<Plan, Failed> {
    if !asked.interactive {
        return Ok(review::plan(roots, selected, git)?);
    }
    if !io.interactive {
        return Err(Failed::usage("`--interactive` needs a terminal"));
    }
    let mut plan = Plan::default();
    for root in roots {
        if selected.wish(root.number).is_none() {
            continue;
        }
        let (wish, go) = hunks::choose(root, selected, here, io)?;
        plan.absorb(opened.plan_chosen(root, wish, git)?);
        if go == Go::Quit {
            break;
        }
    }
    Ok(plan)
}

/// Prints the steps, and what is left out.
fn print(
    session: &str,
    plan: &Plan,
    roots: &[OpenRoot],
    here: &Path,
    flags: &Flags,
    io: &mut Stdio<'_>,
) {
    if flags.json {
        return cmd::sorted_json(&PlanReport::new(plan, roots), io);
    }
    let shown = |root: usize, path: &Path| {
        let base = roots.iter().find(|found| found.number == root);
        let full = base.map_or_else(|| path.to_path_buf(), |base| base.host.path().join(path));
        name(full.strip_prefix(here).unwrap_or(&full))
    };
    let steps = review::steps(plan, roots);
    let most = io.most(steps.len());
    for (step, words) in &steps[..most] {
        let path = shown(step.root, step.path.as_path());
        let words = if words.is_empty() { String::new() } else { format!("  {}", one_line(words)) };
        io.data(&format!("{} {path}{words}\n", step.status().letter()));
    }
    if most < steps.len() {
        io.data(&format!("{}\n", and_more(steps.len() - most)));
    }
    let mut list = |tone, label: &str, lefts: &[Left]| {
        let most = io.most(lefts.len());
        for left in &lefts[..most] {
            let text = format!("{}  {}", shown(left.root, left.path.as_path()), left.why);
            io.labelled(tone, label, &one_line(&text));
        }
        if most < lefts.len() {
            io.labelled(tone, label, &and_more(lefts.len() - most));
        }
    };
    list(Tone::Warning, "note", &plan.notes);
    list(Tone::Warning, "held back", &plan.held);
    list(Tone::Warning, "refused", &plan.refused);
    list(Tone::Bad, "conflict", &plan.conflicts);
    if !plan.held.is_empty() {
        let first = shown(plan.held[0].root, plan.held[0].path.as_path());
        let command = format!("agent-sandbox apply -s {session} {first}");
        io.hint(&format!("Held back because it can run code. To apply it: {command}"));
    }
}

/// Asks for consent if many files would be deleted.
fn agreed(plan: &Plan, roots: &[OpenRoot], yes: bool, io: &mut Stdio<'_>) -> Result<bool, Failed> {
    let Some(count) = deletions_to_confirm(plan, roots) else { return Ok(true) };
    Ok(ask::confirm(&format!("delete {count} files"), yes, io)?)
}

/// Applies the plan, and prints how to revert it.
fn perform(
    opened: &Review,
    roots: &[OpenRoot],
    plan: &Plan,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    let bar = Bar::new(io, plan.steps.len());
    let done = opened.perform(roots, plan, &mut |done, _| bar.set(done));
    bar.finish();
    let changes = done?;
    let plural = if changes == 1 { "" } else { "s" };
    let undo = format!("agent-sandbox undo -s {}", opened.name());
    io.say(&format!("Applied {changes} change{plural}. Undo: {undo}"));
    Ok(())
}

/// Completes an interrupted apply or undo. Returns true if there was one.
fn resume(opened: &Review, io: &mut Stdio<'_>) -> Result<bool, Failed> {
    let Some(mut journal) = opened.interrupted()? else { return Ok(false) };
    let (what, steps) = match journal.status {
        Status::Undoing => ("an undo", 0),
        _ => ("an apply", journal.steps.len()),
    };
    io.note(&format!("{what} was interrupted; completing it first"));
    let bar = Bar::new(io, steps);
    let done = opened.resume(&mut journal, &mut |done, _| bar.set(done));
    bar.finish();
    match done? {
        Resumed::Applied(1) => io.say("Applied 1 change"),
        Resumed::Applied(count) => io.say(&format!("Applied {count} changes")),
        Resumed::Undone(undone) => {
            undo::tell(opened, &undone, io);
        }
    }
    Ok(true)
}
