//! History of a session: its runs, snapshots, applies and undos.

use std::time::SystemTime;

use serde::Serialize;

use super::error::ReviewError;
use crate::apply::{ApplyError, Journal, Status};
use crate::session::{LayerSession, SessionRecord};

/// Event in the life of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Seconds since the epoch.
    pub at: u64,
    /// Kind of the event: `begin`, `fork`, `run`, `snapshot`, `apply` or `undo`.
    pub what: &'static str,
    /// Program, snapshot, origin or number.
    pub name: String,
    /// Length of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Exit code of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// Applied or reverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<usize>,
}

impl Event {
    fn new(at: u64, what: &'static str, name: impl Into<String>) -> Self {
        Self { at, what, name: name.into(), seconds: None, code: None, changes: None }
    }
}

/// Returns the history of a session, oldest event first.
pub fn history(session: &LayerSession) -> Result<Vec<Event>, ReviewError> {
    let mut events = events(session.record());
    for journal in Journal::list(&session.applied_dir())? {
        events.extend(applies(&journal)?);
    }
    // A run begins before its session is recorded, up to a second later.
    events[1..].sort_by_key(|event| event.at);
    Ok(events)
}

fn events(record: &SessionRecord) -> Vec<Event> {
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

/// Returns an apply, and its undo if there was one. Both use the number of the journal as their name.
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
