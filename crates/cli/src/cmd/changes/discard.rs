//! `discard`: throw a session's changes away.

use sandbox_layers::review::{self, Counted, Shown};
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use super::{select, stat};
use crate::args::Flags;
use crate::args::changes::Discard;
use crate::failed::Outcome;
use crate::ui::{Stdio, ask};

/// Throws all changes of a session away, or those of the paths that were named.
pub(crate) fn run(flags: &Flags, asked: &Discard, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = super::open(None, flags, host)?;
    opened.check_stopped()?;
    opened.check_whole()?;
    let roots = opened.roots()?;
    let selected = select(&asked.paths, &roots, &opened, flags, host)?;
    let lines = review::lines(&roots, &selected, Counted::No)?;
    let repositories: Vec<_> = roots.iter().flat_map(|root| Shown::of(root, &selected)).collect();
    if lines.is_empty() && repositories.is_empty() {
        io.say("nothing to throw away");
        return Ok(0);
    }
    let git = if repositories.is_empty() { "" } else { ", and what changed in git," };
    let question =
        format!("throw away {}{git} of the session `{}`?", stat::total(&lines), opened.name());
    if !ask::confirm(&question, asked.yes, io)? {
        io.say("nothing was thrown away");
        return Ok(ExitCode::Failure.code());
    }
    opened.discard(&selected)?;
    io.say("thrown away");
    Ok(0)
}
