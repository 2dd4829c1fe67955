//! `fs history`: lists the tool calls that programs logged in a filesystem.

use std::path::Path;

use crate::args::Flags;
use crate::args::fs::History;
use crate::failed::Outcome;
use sandbox_layers::folder;
use sandbox_linux::clock::date_time;
use sandbox_linux::escape::joined;

use crate::ui::{Stdio, Tone};

/// Prints the last calls, the oldest first.
pub(crate) fn run(flags: &Flags, history: &History, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let calls = folder::open(&history.target.target, here)?.calls(history.limit)?;
    if flags.json {
        super::super::json(&calls, io);
        return Ok(0);
    }
    let rows: Vec<[String; 5]> = calls
        .iter()
        .map(|call| {
            let took = call.duration_ms.map_or_else(|| "-".into(), |ms| format!("{ms} ms"));
            let what = call.error.as_ref().or(call.parameters.as_ref());
            let what = what.map(|text| one_line(text)).unwrap_or_default();
            [date_time(call.started_at), one_line(&call.name), one_line(&call.status), took, what]
        })
        .collect();
    let text = super::super::columns(&rows, |column, text, row| match (column, row[2].as_str()) {
        (2, "success") => io.tone(Tone::Good, text),
        (2, "error") => io.tone(Tone::Bad, text),
        (0 | 3, _) => io.tone(Tone::Quiet, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    if rows.is_empty() {
        io.say("no tool calls");
    }
    Ok(0)
}

fn one_line(text: &str) -> String {
    joined(text).chars().take(200).collect()
}
