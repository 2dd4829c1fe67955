//! `discard`: discards a session's changes.

use sandbox_layers::review::{self, Counted, Shown, Total};
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use super::select;
use crate::args::Flags;
use crate::args::changes::Discard;
use crate::failed::Outcome;
use crate::ui::{Stdio, ask};

/// Discards a session's changes, all or those at the named paths.
pub(crate) fn run(flags: &Flags, asked: &Discard, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut opened = super::open("discard", None, flags, host)?;
    opened.check_stopped()?;
    opened.check_whole()?;
    let roots = opened.roots()?;
    let selected = select(&asked.paths, &roots, &opened, flags, host)?;
    let lines = review::lines(&roots, &selected, Counted::No)?;
    let repositories: Vec<_> = roots.iter().flat_map(|root| Shown::of(root, &selected)).collect();
    if lines.is_empty() && repositories.is_empty() {
        io.say(if asked.paths.is_empty() {
            "nothing to discard"
        } else {
            "nothing to discard at these paths"
        });
        return Ok(0);
    }
    let git = if repositories.is_empty() { "" } else { ", with changes to git," };
    let session = opened.name().to_owned();
    let action = format!("discard {}{git} in session `{session}`", Total::of(&lines).losses());
    if !ask::confirm(&action, asked.yes, io)? {
        io.say("nothing was discarded");
        return Ok(ExitCode::Failure.code());
    }
    opened.discard(&selected)?;
    let all = if asked.paths.is_empty() { "all" } else { "the selected" };
    io.say(&format!("Discarded {all} changes in session `{session}`"));
    Ok(0)
}
