//! `apply`: take a session's changes over.

use std::path::Path;

use sandbox_core::Host;
use sandbox_cowfs::apply::{self, ApplyError, Journal, Left, Plan, Step, Target, Wish};
use sandbox_cowfs::host::Kind;
use serde_json::json;

use super::hunks::Go;
use super::progress::Bar;
use super::select::Selected;
use super::{ChangesError, OpenRoot, Opened, ask, directory, free_space, hunks, json as form};
use crate::args::{Apply, Flags};
use crate::cmd;
use crate::cmd::report::name;
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// As many deletions are done without a question.
const FEW: usize = 100;
/// Fewer than this are never most of a tree.
const A_FEW: usize = 10;

/// Applies a session's changes, or those of the paths that were named.
pub(crate) fn run(flags: &Flags, asked: &Apply, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = Opened::find(None, flags, host)?;
    if opened.lock.is_none() {
        if !asked.live {
            return Err(in_use(&opened));
        }
        opened.hold_still(host)?;
    }
    if flags.dry_run {
        opened.tell_interrupted(io)?;
    } else if resume(&mut opened, io)? && asked.resume {
        return Ok(0);
    }
    if asked.resume {
        io.say("no apply was interrupted");
        return Ok(0);
    }
    let roots = opened.roots()?;
    let selected = Selected::of(&asked.paths, &roots, opened.name(), flags, host)?;
    let here = directory(flags, host);
    let plan = decide(&roots, &selected, asked, &here, io)?;
    print(&plan, &roots, &here, flags, io);
    if flags.dry_run {
        return Ok(u8::from(!plan.conflicts.is_empty()));
    }
    if !plan.conflicts.is_empty() && !asked.partial {
        io.labelled(Tone::Bad, "error", "nothing was applied, because of the conflicts above");
        let hint = "`--partial` applies the rest; or bring the host's files back, and try again";
        io.labelled(Tone::Good, "hint", hint);
        return Ok(1);
    }
    if plan.steps.is_empty() {
        io.say("nothing to apply");
        return Ok(u8::from(!plan.conflicts.is_empty()));
    }
    if !agreed(&plan, &roots, asked.yes, io)? {
        io.say("nothing was applied");
        return Ok(1);
    }
    perform(&mut opened, &roots, &plan, io)?;
    Ok(u8::from(!plan.conflicts.is_empty()))
}

fn in_use(opened: &Opened) -> Failed {
    let error = opened.stopped().err();
    let error = error.unwrap_or_else(|| ChangesError::Running(opened.name().to_owned()));
    let hint = match &error {
        ChangesError::Up(name) => {
            format!("take it down: agent-sandbox down {name}; or apply while it runs: `--live`")
        }
        _ => "wait for its end; `--live` applies while it runs".into(),
    };
    Failed { hint: Some(hint), ..Failed::from(error) }
}

/// What to do in all roots together.
fn decide(
    roots: &[OpenRoot],
    selected: &Selected,
    asked: &Apply,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<Plan, Failed> {
    if asked.interactive && !io.interactive {
        return Err(Failed::usage("`--interactive` needs a terminal to ask on"));
    }
    let mut plan = Plan::default();
    for root in roots {
        let Some(mut wish) = selected.wish(root.number) else { continue };
        let mut go = Go::On;
        if asked.interactive {
            (wish, go) = hunks::choose(root, selected, here, io)?;
        }
        if !asked.interactive || !wish.paths.is_empty() {
            plan.absorb(plan_root(root, &wish)?);
        }
        if go == Go::Quit {
            break;
        }
    }
    Ok(plan)
}

fn plan_root(root: &OpenRoot, wish: &Wish) -> Result<Plan, ApplyError> {
    let changes = &root.changes;
    let later = |path: &_| root.later(path);
    apply::plan(&root.target(), &changes.list, changes.truncated, wish, &later)
}

/// Says what will be done, and what will not.
fn print(plan: &Plan, roots: &[OpenRoot], here: &Path, flags: &Flags, io: &mut Stdio<'_>) {
    if flags.json {
        return cmd::json(&as_json(plan, roots), io);
    }
    let shown = |root: usize, path: &Path| {
        let base = roots.iter().find(|found| found.number == root);
        let full = base.map_or_else(|| path.to_path_buf(), |base| base.host.path().join(path));
        name(full.strip_prefix(here).unwrap_or(&full))
    };
    for step in &plan.steps {
        let text = format!("{} {}\n", letter(step), shown(step.root, step.path.as_path()));
        io.data(&text);
    }
    let mut list = |tone, label: &str, lefts: &[Left]| {
        for left in lefts {
            let text = format!("{}  {}", shown(left.root, left.path.as_path()), left.why);
            io.labelled(tone, label, &crate::ui::visible(&text));
        }
    };
    list(Tone::Warning, "note", &plan.notes);
    list(Tone::Warning, "held", &plan.held);
    list(Tone::Warning, "refused", &plan.refused);
    list(Tone::Bad, "conflict", &plan.conflicts);
    if !plan.held.is_empty() {
        let first = shown(plan.held[0].root, plan.held[0].path.as_path());
        let text =
            format!("what is held is applied only when it is named: `agent-sandbox apply {first}`");
        io.labelled(Tone::Good, "hint", &text);
    }
}

fn letter(step: &Step) -> char {
    match (&step.before, &step.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        _ => 'M',
    }
}

fn as_json(plan: &Plan, roots: &[OpenRoot]) -> serde_json::Value {
    let base = |root: usize| roots.iter().find(|found| found.number == root);
    let root = |root: usize| base(root).map(|root| form::path(root.host.path()));
    let lefts = |lefts: &[Left]| -> Vec<_> {
        let one = |left: &Left| json!({ "root": root(left.root), "path": form::path(left.path.as_path()), "why": left.why });
        lefts.iter().map(one).collect()
    };
    let step = |step: &Step| {
        let action = match letter(step) {
            'A' => "add",
            'D' => "delete",
            _ => "modify",
        };
        json!({ "root": root(step.root), "path": form::path(step.path.as_path()), "action": action })
    };
    json!({
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
        "held": lefts(&plan.held),
        "conflicts": lefts(&plan.conflicts),
        "refused": lefts(&plan.refused),
        "notes": lefts(&plan.notes),
        "deletions": plan.deletions(),
    })
}

/// Many deletions are asked about: more than a hundred files, or most of a tree.
fn agreed(
    plan: &Plan,
    roots: &[OpenRoot],
    yes: bool,
    io: &mut Stdio<'_>,
) -> Result<bool, ChangesError> {
    let count = plan.deletions();
    let most = || roots.iter().any(|root| is_most(plan, root));
    if count <= FEW && (count < A_FEW || !most()) {
        return Ok(true);
    }
    ask::confirm(&format!("{count} files will be deleted: apply?"), yes, io)
}

/// Whether more than half of the files of a root go. Counting stops as soon as that is clear, so
/// that it costs by what goes.
fn is_most(plan: &Plan, root: &OpenRoot) -> bool {
    let gone = plan.steps.iter().filter(|step| {
        let file = step.before.as_ref().is_some_and(|was| was.kind != Kind::Dir);
        step.root == root.number && file && step.is_removal()
    });
    let gone = gone.count();
    gone > 0 && !sandbox_cowfs::host::has_more_files(&root.host, 2 * gone)
}

/// Does it, and says so.
fn perform(
    opened: &mut Opened,
    roots: &[OpenRoot],
    plan: &Plan,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
    check_space(opened, roots, plan)?;
    let applied = opened.session.applied_dir();
    let mut journal = Journal::begin(&applied, plan, &targets)?;
    let bar = Bar::new(io, plan.steps.len());
    let done = apply::perform(&mut journal, &targets, &mut |done, _| bar.set(done));
    bar.finish();
    if let Err(ApplyError::TakenBack { .. }) = &done {
        super::undo::unremember(opened, roots, &journal)?;
    }
    done?;
    remember(opened, roots, &journal)?;
    let changes = plan.steps.len();
    let text = format!("{changes} change{} applied", if changes == 1 { "" } else { "s" });
    io.say(&format!("{text}; `agent-sandbox undo -s {}` takes them back", opened.name()));
    Ok(())
}

/// What is written, and what is saved of what it replaces, must both have room.
fn check_space(opened: &Opened, roots: &[OpenRoot], plan: &Plan) -> Result<(), ApplyError> {
    let of = |root: usize| plan.steps.iter().filter(move |step| step.root == root);
    for root in roots {
        let needed: u64 = of(root.number).map(Step::bytes).sum();
        let free = free_space(root.host.path());
        if needed > free {
            return Err(ApplyError::NoSpace {
                place: root.host.path().to_path_buf(),
                needed,
                free,
            });
        }
    }
    let saved = |step: &Step| {
        let file = step.before.as_ref().filter(|was| was.kind == Kind::File);
        file.map_or(0, |was| was.stamp.size)
    };
    let needed: u64 = plan.steps.iter().map(saved).sum();
    let place = opened.session.dir().to_path_buf();
    let free = free_space(&place);
    if needed > free { Err(ApplyError::NoSpace { place, needed, free }) } else { Ok(()) }
}

/// Tells the session what its base is now.
pub(super) fn remember(
    opened: &Opened,
    roots: &[OpenRoot],
    journal: &Journal,
) -> Result<(), Failed> {
    for root in roots {
        let mut record = root.record.clone();
        apply::remember(journal, root.number, &root.host, &mut record)?;
        opened.session.save_base_record(root.number, &record)?;
    }
    Ok(())
}

/// Completes an apply that was killed, or the undo of one. Returns whether there was one.
fn resume(opened: &mut Opened, io: &mut Stdio<'_>) -> Result<bool, Failed> {
    let Some(mut journal) = opened.interrupted()? else { return Ok(false) };
    if journal.status == apply::Status::Undoing {
        super::undo::complete(opened, &mut journal, io)?;
        return Ok(true);
    }
    io.labelled(Tone::Warning, "note", "an apply was interrupted: it is completed first");
    let roots = opened.roots()?;
    let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
    let bar = Bar::new(io, journal.steps.len());
    let done = apply::resume(&mut journal, &targets, &mut |done, _| bar.set(done));
    bar.finish();
    done?;
    remember(opened, &roots, &journal)?;
    io.say(&format!("{} changes applied", journal.steps.len()));
    Ok(true)
}
