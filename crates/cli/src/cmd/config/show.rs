//! `config show`: shows every effective value, with its origin.

use sandbox_core::describe::effective::{self, Rows};
use sandbox_policy::Host;

use crate::args::Flags;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Prints the effective configuration of this directory.
pub(crate) fn show(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let plan = super::planned(flags, host, io)?;
    if flags.json {
        crate::cmd::json(&effective::to_json(&plan), io);
        return Ok(0);
    }
    let text: String = effective::sections(&plan)
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(title, rows)| section(title, &rows, io))
        .collect::<Vec<_>>()
        .join("\n");
    io.data(&text);
    Ok(0)
}

fn section(title: &str, rows: &Rows, io: &Stdio<'_>) -> String {
    let table = crate::cmd::columns(rows, |column, text, _| match column {
        2 => io.tone(Tone::Quiet, text),
        _ => text.to_owned(),
    });
    let lines: Vec<String> = table.lines().map(|line| format!("  {line}")).collect();
    format!("{}\n{}\n", io.tone(Tone::Strong, title), lines.join("\n"))
}
