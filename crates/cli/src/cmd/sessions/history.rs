//! `history`: what happened in a session.

use sandbox_core::Host;
use sandbox_cowfs::session::Record;
use serde::Serialize;

use super::{ago, chosen, now};
use crate::args::Flags;
use crate::cmd::{columns, json};
use crate::run::Outcome;
use crate::ui::{Stdio, Tone, visible};

/// One thing that happened.
#[derive(Serialize)]
struct Event {
    /// Seconds since the epoch.
    at: u64,
    what: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
}

/// Tells it, the oldest first.
pub(crate) fn run(
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let (_, session) = chosen(name, flags, host)?;
    let events = events(session.record());
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
        ("run", Some(seconds), Some(code)) => format!("ended with {code} after {}", ago(seconds)),
        ("run", Some(_), None) => "was killed".into(),
        ("run", None, _) => "is running, or was killed".into(),
        _ => String::new(),
    };
    let when = format!("{} ago", ago(now().saturating_sub(event.at)));
    [when, event.what.into(), visible(&event.name), end]
}

fn events(record: &Record) -> Vec<Event> {
    let what = if record.parent.is_some() { "fork" } else { "begin" };
    let origin = record.parent.clone().unwrap_or_else(|| record.name.clone());
    let first = Event { at: record.created, what, name: origin, seconds: None, code: None };
    let runs = record.runs.iter().map(|run| {
        let at = u64::try_from(run.started.0).unwrap_or(0);
        let seconds = run.ended.map(|ended| ended.saturating_sub(at));
        Event { at, what: "run", name: run.program.clone(), seconds, code: run.code }
    });
    let snapshots = record.snapshots.iter().map(|snapshot| Event {
        at: snapshot.taken,
        what: "snapshot",
        name: snapshot.name.clone(),
        seconds: None,
        code: None,
    });
    let mut events: Vec<Event> = [first].into_iter().chain(runs).chain(snapshots).collect();
    events.sort_by_key(|event| event.at);
    events
}
