//! `host-command check`: compares the configuration's commands with the host's list, and explains the entries.

use sandbox_bridge::check::{Comparison, Drift};
use sandbox_bridge::verdict::has_rules;
use sandbox_policy::Host;
use sandbox_policy::config::command::Entry;
use serde_json::json;

use crate::args::Flags;
use crate::args::host_command::Check;
use crate::cmd;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone, visible};

/// Compares the lists. Exits with 1 if the host denies a command of the configuration.
pub(super) fn run(flags: &Flags, check: &Check, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let request = cmd::request(flags, Vec::new(), host)?;
    let config = cmd::load(host, &request, io)?;
    let bridge = config.session.host_commands.as_ref().map(|bridge| &bridge.value);
    let container: &[Entry] =
        bridge.filter(|bridge| bridge.enabled).map_or(&[], |bridge| &bridge.allowed);
    let comparison = Comparison::of(container, &check.list)?;
    let bad = comparison.denies();
    let Comparison { list, warnings, drifts } = comparison;
    let allowed = list.as_ref().map_or(container, |list| list.allowed.as_slice());
    if flags.json {
        let warnings: Vec<_> = warnings
            .iter()
            .map(|warning| json!({ "entry": warning.entry, "what": warning.what }))
            .collect();
        let drifts: Vec<_> = drifts.iter().map(Drift::text).collect();
        let entries: Vec<_> = allowed
            .iter()
            .map(|entry| json!({ "entry": entry.text(), "means": meaning(entry) }))
            .collect();
        let answer = json!({
            "list": check.list, "found": list.is_some(), "entries": entries, "warnings": warnings, "drift": drifts, "same": !bad,
        });
        cmd::json(&answer, io);
        return Ok(u8::from(bad));
    }
    for entry in allowed {
        io.data(&format!("{}: {}\n", visible(&entry.text()), visible(&meaning(entry))));
    }
    for warning in &warnings {
        io.labelled(Tone::Bad, "warning", &format!("`{}` {}", warning.entry, warning.what));
    }
    for drift in &drifts {
        io.labelled(Tone::Bad, "drift", &drift.text());
    }
    let place = check.list.display();
    io.data(&match (&list, bad) {
        (None, _) => format!(
            "{place} does not exist: SSH requests are denied, and requests on a session's socket use the session's list\n"
        ),
        (Some(_), true) => format!("{place} denies commands that the configuration sends to the host\n"),
        (Some(list), false) => format!("{place} allows {} commands, the configuration sends {}\n", list.allowed.len(), container.len()),
    });
    Ok(u8::from(bad))
}

/// Describes the requests that an entry allows.
fn meaning(entry: &Entry) -> String {
    let rules = if has_rules(entry) { "rules for this tool" } else { "no rules for this tool" };
    format!("{}, {rules}", entry.meaning())
}
