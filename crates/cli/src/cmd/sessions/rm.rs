//! `rm`: removes sessions.

use sandbox_layers::review::Summary;
use sandbox_policy::Host;
use sandbox_policy::text::bytes;
use sandbox_protocol::ExitCode;
use sandbox_sessions::removal::{Removal, Removed};

use super::{here, service};
use crate::args::Flags;
use crate::args::sessions::Rm;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, ask};

/// Removes the named sessions. Finds all names, and asks about unapplied changes, before it removes the first one.
pub(crate) fn run(rm: &Rm, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if rm.names.is_empty() {
        return Err(Failed::usage("`rm` needs the name of a session"));
    }
    let (service, layers) = (service::open_used(host)?, sandbox_launch::layers::sessions(host)?);
    let removal = Removal::plan(&rm.names, &here(flags, host), service.as_ref(), &layers)?;
    let losses = removal.losses();
    if !losses.is_empty() {
        let question = format!("remove unapplied changes of {}", losses.join(", "));
        if !ask::confirm(&question, rm.yes, io)? {
            io.say("nothing was removed");
            return Ok(ExitCode::Failure.code());
        }
    }
    removal.carry_out(rm.yes, &mut |Removed { name, layer }| match layer {
        Some((changes, size)) => io.say(&format!("Removed {}", tell(&name, changes, size))),
        None => io.say(&format!("Removed {name}")),
    })?;
    Ok(0)
}

/// Describes a session and its changes.
fn tell(name: &str, changes: Option<Summary>, size: u64) -> String {
    let changes =
        changes.map_or_else(|| "unreadable changes".into(), |summary| summary.to_string());
    format!("{name}: {changes}; {}", bytes(size))
}
