//! `history`: what happened in a session.

use std::time::SystemTime;

use sandbox_core::Host;
use sandbox_layers::apply::{ApplyError, Journal, Status};
use sandbox_layers::review::ReviewError;
use sandbox_layers::session::Record;
use sandbox_linux::clock;
use serde::Serialize;

use super::{ago, chosen};
use crate::args::Flags;
use crate::cmd::{columns, json};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone, one_line};

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
    /// Applied or reverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<usize>,
}

impl Event {
    fn new(at: u64, what: &'static str, name: impl Into<String>) -> Self {
        Self { at, what, name: name.into(), seconds: None, code: None, changes: None }
    }
}

/// Tells it, the oldest first.
pub(crate) fn run(
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let (_, session) = chosen(name, flags, host)?;
    let mut events = events(session.record());
    for journal in Journal::list(&session.applied_dir()).map_err(ReviewError::from)? {
        events.extend(applies(&journal).map_err(ReviewError::from)?);
    }
    // A run begins before its session is recorded, which may be a second later.
    events[1..].sort_by_key(|event| event.at);
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
        ("apply" | "undo", _, _) => match event.changes {
            Some(1) => "1 change".into(),
            Some(count) => format!("{count} changes"),
            None => "was interrupted".into(),
        },
        _ => String::new(),
    };
    let when = format!("{} ago", ago(clock::now().saturating_sub(event.at)));
    [when, event.what.into(), one_line(&event.name), end]
}

fn events(record: &Record) -> Vec<Event> {
    let what = if record.parent.is_some() { "fork" } else { "begin" };
    let origin = record.parent.clone().unwrap_or_else(|| record.name.clone());
    let first = Event::new(record.created, what, origin);
    let runs = record.runs.iter().map(|run| {
        let at = u64::try_from(run.started.0).unwrap_or(0);
        let seconds = run.ended.map(|ended| ended.saturating_sub(at));
        Event { seconds, code: run.code, ..Event::new(at, "run", &run.program) }
    });
    let snapshots = record.snapshots.iter();
    let snapshots =
        snapshots.map(|snapshot| Event::new(snapshot.taken, "snapshot", &snapshot.name));
    [first].into_iter().chain(runs).chain(snapshots).collect()
}

/// An apply, and its undo if there was one. Both are called by the number of the journal.
fn applies(journal: &Journal) -> Result<Vec<Event>, ApplyError> {
    let (began, last) = journal.times()?;
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    };
    let number = journal.number.to_string();
    let (applied, undone) = journal.counts();
    let is_done = journal.status != Status::Applying;
    let apply = Event {
        changes: is_done.then_some(applied),
        ..Event::new(seconds(began), "apply", &number)
    };
    let undo = Event::new(seconds(last), "undo", &number);
    Ok(match journal.status {
        Status::Applying | Status::Applied => vec![apply],
        Status::Undoing => vec![apply, undo],
        Status::Undone => vec![apply, Event { changes: Some(undone), ..undo }],
    })
}
