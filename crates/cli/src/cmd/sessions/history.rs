//! `history`: shows a session's log of runs and applies.

use sandbox_layers::review::{Event, history};
use sandbox_linux::clock;
use sandbox_policy::Host;

use super::chosen;
use crate::args::Flags;
use crate::cmd::{columns, json};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone, one_line};

/// Prints the events, the oldest first.
pub(crate) fn run(
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let (_, session) = chosen(name, flags, host)?;
    let events = history(&session)?;
    if flags.json {
        json(&events, io);
        return Ok(0);
    }
    let rows: Vec<[String; 4]> = events.iter().map(row).collect();
    let text = columns(&rows, |column, cell, _| match column {
        0 => io.tone(Tone::Quiet, cell),
        1 => io.tone(Tone::Strong, cell),
        _ => cell.to_owned(),
    });
    io.data(&text);
    Ok(0)
}

fn row(event: &Event) -> [String; 4] {
    let end = match (event.what, event.seconds, event.code) {
        ("run", Some(seconds), Some(code)) => {
            format!("ended with {code} after {}", clock::duration(seconds))
        }
        ("run", Some(_), None) => "was killed".into(),
        ("run", None, _) => "is running, or was killed".into(),
        ("apply" | "undo", _, _) => match event.changes {
            Some(1) => "1 change".into(),
            Some(count) => format!("{count} changes"),
            None => "was interrupted".into(),
        },
        _ => String::new(),
    };
    let when = format!("{} ago", clock::duration(clock::now().saturating_sub(event.at)));
    [when, event.what.into(), one_line(&event.name), end]
}
