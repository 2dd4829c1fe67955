//! The size of a session's changes, printed at the end of a run.

use std::path::PathBuf;

use sandbox_core::inspect;
pub(crate) use sandbox_layers::review::Summary;
use sandbox_layers::session::LayerSession;

use super::report;
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Prints the files that can run code, then the size, then the next commands.
pub(crate) fn print(
    summary: &Summary,
    session: &LayerSession,
    shifted: &[PathBuf],
    io: &mut Stdio<'_>,
) {
    let called = &session.record().name;
    if !summary.later.is_empty() {
        let count = summary.later.len();
        let files = if count == 1 { "file" } else { "files" };
        let text = format!("{count} new or changed {files} can run code once applied:");
        io.labelled(Tone::Warning, "warning", &text);
        for (path, why) in summary.later.iter().take(inspect::MAX_LISTED) {
            let why = io.err_tone(Tone::Quiet, why);
            io.say(&format!("  {}  {why}", name(path)));
        }
        if count > inspect::MAX_LISTED {
            io.say(&format!("  … and {} more", count - inspect::MAX_LISTED));
        }
    }
    report::list("changed on the host meanwhile", shifted, io);
    let label = io.err_tone(Tone::Strong, &format!("session {called}"));
    if summary.is_empty() {
        return io.say(&format!("{label}: no changes"));
    }
    io.say(&format!("{label}: {summary}"));
    io.say(&format!(
        "  next: agent-sandbox diff -s {called} · agent-sandbox apply -s {called} · agent-sandbox discard -s {called}"
    ));
}
