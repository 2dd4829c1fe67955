//! `undo`: revert the last apply.

use sandbox_layers::RelPath;
use sandbox_layers::apply::{Changed, Undone};
use sandbox_layers::review::Review;
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use crate::args::changes::Undo;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Reverts the last apply of a session.
pub(crate) fn run(flags: &Flags, asked: &Undo, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let opened = super::open("undo", None, flags, host)?;
    opened.check_stopped()?;
    let Some(mut journal) = opened.last_apply()? else {
        let name = opened.name();
        let hint = format!("`agent-sandbox history -s {name}` lists its applies");
        return Err(Failed::of_result(format!("session `{name}` has no apply to revert"), hint));
    };
    let changed = if asked.partial { Changed::LeaveOut } else { Changed::Stop };
    let undone = opened.undo(&mut journal, changed)?;
    Ok(tell(&opened, &undone, io))
}

/// Prints the result of an undo. Returns the exit code.
pub(super) fn tell(opened: &Review, undone: &Undone, io: &mut Stdio<'_>) -> u8 {
    match undone {
        Undone::Refused(left) => {
            list(opened, left, io);
            io.labelled(
                Tone::Bad,
                "error",
                "nothing was reverted because these files changed since",
            );
            io.hint("pass `--partial` to revert the rest and keep them");
            ExitCode::Failure.code()
        }
        Undone::Done { left, count } => {
            list(opened, left, io);
            io.say(&format!("Reverted {count} change{}", if *count == 1 { "" } else { "s" }));
            ExitCode::failed_if(!left.is_empty()).code()
        }
    }
}

fn list(opened: &Review, left: &[(usize, RelPath)], io: &mut Stdio<'_>) {
    for (root, path) in left {
        io.labelled(Tone::Warning, "changed since", &name(&opened.full_path(*root, path)));
    }
}
