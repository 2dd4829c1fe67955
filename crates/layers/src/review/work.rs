//! Work that exists only in a session and would be lost with it.

use super::summary::Summary;
use crate::apply::{Journal, Status};
use crate::session::LayerSession;

/// Describes the work that would be lost with a session: unapplied changes, originals of an interrupted apply, and
/// snapshots.
pub fn unapplied(session: &LayerSession) -> Option<String> {
    let parts = [changes(session), interrupted(session), snapshots(session)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn changes(session: &LayerSession) -> Option<String> {
    match Summary::of(session) {
        Ok(summary) if summary.is_empty() && summary.dirs == 0 && !summary.truncated => None,
        Ok(summary) => Some(summary.to_string()),
        Err(_) if session.is_untouched() => None,
        Err(_) => Some("changes that cannot be read".into()),
    }
}

fn interrupted(session: &LayerSession) -> Option<String> {
    let is_done = |journal: &Journal| matches!(journal.status, Status::Applied | Status::Undone);
    match Journal::list(&session.applied_dir()) {
        Ok(journals) if journals.iter().all(is_done) => None,
        Ok(journals) if journals.iter().any(|journal| journal.status == Status::Undoing) => {
            Some("the originals of an interrupted undo".into())
        }
        Ok(_) => Some("the originals of an interrupted apply".into()),
        Err(_) => Some("a record of applied changes that cannot be read".into()),
    }
}

fn snapshots(session: &LayerSession) -> Option<String> {
    match session.record().snapshots.len() {
        0 => None,
        1 => Some("1 snapshot".into()),
        count => Some(format!("{count} snapshots")),
    }
}
