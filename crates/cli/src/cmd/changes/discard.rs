//! `discard`: throw a session's changes away.

use sandbox_core::Host;

use super::select::Selected;
use super::stat::{self, Counted};
use super::{Opened, ask};
use crate::args::{Discard, Flags};
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Throws all changes of a session away, or those of the paths that were named.
pub(crate) fn run(flags: &Flags, asked: &Discard, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = Opened::find(None, flags, host)?;
    opened.stopped()?;
    let roots = opened.roots()?;
    let selected = Selected::of(&asked.paths, &roots, opened.name(), flags, host)?;
    let lines = stat::lines(&roots, &selected, Counted::No)?;
    if lines.is_empty() {
        io.say("nothing to throw away");
        return Ok(0);
    }
    let question =
        format!("throw away {} of the session `{}`?", stat::total(&lines), opened.name());
    if !ask::confirm(&question, asked.yes, io)? {
        io.say("nothing was thrown away");
        return Ok(1);
    }
    if asked.paths.is_empty() {
        everything(&mut opened)?;
    } else {
        paths(&opened, &selected)?;
    }
    io.say("thrown away");
    Ok(0)
}

fn everything(opened: &mut Opened) -> Result<(), Failed> {
    if let Some(lock) = &opened.lock {
        opened.session.clear(lock)?;
    }
    Ok(())
}

fn paths(opened: &Opened, selected: &Selected) -> Result<(), Failed> {
    let Some(lock) = &opened.lock else { return Ok(()) };
    for (root, path) in selected.tops(&opened.roots()?) {
        opened.session.discard(lock, root, &path)?;
    }
    Ok(())
}
