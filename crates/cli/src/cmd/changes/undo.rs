//! `undo`: take the last apply back.

use sandbox_core::Host;
use sandbox_cowfs::RelPath;
use sandbox_cowfs::apply::{self, Changed, Journal, Status, Target, Undone};

use super::{OpenRoot, Opened};
use crate::args::{Flags, Undo};
use crate::cmd::report::name;
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// Takes the last apply of a session back.
pub(crate) fn run(flags: &Flags, asked: &Undo, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = Opened::find(None, flags, host)?;
    opened.stopped()?;
    let journals = Journal::list(&opened.session.applied_dir())?;
    let last = journals.into_iter().rev().find(|journal| journal.status != Status::Undone);
    let Some(mut journal) = last else {
        io.say("there is no apply to take back");
        return Ok(1);
    };
    let changed = if asked.partial { Changed::LeaveOut } else { Changed::Stop };
    undo(&mut opened, &mut journal, changed, io)
}

/// Completes an undo that was killed.
pub(super) fn complete(
    opened: &mut Opened,
    journal: &mut Journal,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    io.labelled(Tone::Warning, "note", "an undo was interrupted: it is completed first");
    undo(opened, journal, Changed::LeaveOut, io).map(|_| ())
}

fn undo(
    opened: &mut Opened,
    journal: &mut Journal,
    changed: Changed,
    io: &mut Stdio<'_>,
) -> Outcome {
    let roots = opened.roots()?;
    let targets: Vec<Target<'_>> = roots.iter().map(OpenRoot::target).collect();
    match apply::undo(journal, &targets, changed)? {
        Undone::Refused(left) => {
            tell(&left, &roots, io);
            io.labelled(Tone::Bad, "error", "nothing was taken back, because these changed since");
            let hint = "`--partial` takes the rest back and leaves them as they are";
            io.labelled(Tone::Good, "hint", hint);
            Ok(1)
        }
        Undone::Done(left) => {
            unremember(opened, &roots, journal)?;
            tell(&left, &roots, io);
            let count = journal.steps.len() - left.len();
            io.say(&format!("{count} change{} taken back", if count == 1 { "" } else { "s" }));
            Ok(u8::from(!left.is_empty()))
        }
    }
}

/// Tells the session what its base was before the apply.
pub(super) fn unremember(
    opened: &Opened,
    roots: &[OpenRoot],
    journal: &Journal,
) -> Result<(), Failed> {
    for root in roots {
        let mut record = root.record.clone();
        apply::unremember(journal, root.number, &root.host, &mut record)?;
        opened.session.save_base_record(root.number, &record)?;
    }
    Ok(())
}

fn tell(left: &[(usize, RelPath)], roots: &[OpenRoot], io: &mut Stdio<'_>) {
    for (number, path) in left {
        let root = roots.iter().find(|root| root.number == *number);
        let full = root.map_or_else(
            || path.as_path().to_path_buf(),
            |root| root.host.path().join(path.as_path()),
        );
        io.labelled(Tone::Warning, "changed since", &name(&full));
    }
}
