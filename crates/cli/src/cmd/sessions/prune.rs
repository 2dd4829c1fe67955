//! `prune`: removes sessions without unapplied changes, and leftovers.

use sandbox_policy::Host;
use sandbox_policy::text::bytes;
use sandbox_protocol::ExitCode;
use sandbox_sessions::pruning::{PruneItem, PruneReport, PruneRequest, Pruning};

use super::{here, service};
use crate::args::Flags;
use crate::args::sessions::Prune;
use crate::cmd::json;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, ask};

/// Removes sessions without unapplied changes that are empty, old or without a project. A session with unapplied
/// changes is removed only by name.
pub(crate) fn run(prune: &Prune, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let layers = sandbox_launch::layers::sessions(host)?;
    // Opened even without a record: resources may have survived it.
    let service = if host.inside { None } else { Some(service::open(host)?) };
    let directory = here(flags, host);
    let request =
        PruneRequest { names: &prune.names, directory: &directory, days: prune.older_than };
    let pruning = Pruning::plan(request, service.as_ref(), &layers)?;
    let report = pruning.report();
    if !flags.json {
        print(report, io);
    }
    let wanted = !report.remove.is_empty() && !flags.dry_run;
    let agreed = wanted
        && ask::confirm("remove these permanently", prune.yes, io)
            .map_err(|error| Failed { code: ExitCode::Usage.code(), ..error.into() })?;
    if flags.json {
        json(report, io);
    }
    if agreed {
        pruning.carry_out()?;
    }
    Ok(0)
}

fn print(report: &PruneReport, io: &mut Stdio<'_>) {
    for kept in &report.keep {
        io.say(&format!("kept {}: {}", kept.name, kept.reason));
        io.say(&format!("  to remove it: {}", kept.remove_with));
    }
    for PruneItem { name, reason, changes, bytes: size, .. } in &report.remove {
        let detail = match (changes, size) {
            (Some(changes), Some(size)) => format!(": {changes}; {}", bytes(*size)),
            _ => String::new(),
        };
        io.say(&format!("{name}{detail}  ({reason})"));
    }
    if report.remove.is_empty() {
        io.say("nothing to remove");
    }
}
