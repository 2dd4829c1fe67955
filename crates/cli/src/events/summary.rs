//! The size of a session's changes, printed at the end of a run.

use std::path::PathBuf;

use sandbox_core::inspect;
pub(crate) use sandbox_layers::review::Summary;
use sandbox_layers::session::LayerSession;

use super::report;
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Prints it: what runs code later first, then how much, then what to do next.
pub(crate) fn print(
    summary: &Summary,
    session: &LayerSession,
    shifted: &[PathBuf],
    io: &mut Stdio<'_>,
) {
    let called = &session.record().name;
    if !summary.later.is_empty() {
        let count = summary.later.len();
        let files = if count == 1 { "file that runs" } else { "files that run" };
        let text = format!("{count} new or changed {files} code later, once applied:");
        io.labelled(Tone::Warning, "note", &text);
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
        return io.say(&format!("{label}: nothing is changed"));
    }
    io.say(&format!("{label}: {summary}"));
    io.say(&format!(
        "  next: agent-sandbox diff -s {called} · agent-sandbox apply -s {called} · agent-sandbox discard -s {called}"
    ));
}
