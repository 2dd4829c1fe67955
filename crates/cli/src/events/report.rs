//! Printer for the report of a scan.

#[cfg(feature = "layers")]
use std::path::PathBuf;

use sandbox_core::inspect::Report;
use sandbox_linux::escape::name;

use crate::ui::{Stdio, Tone, one_line};

/// Prints a report. `of` names the run, unless it is the current one.
pub(crate) fn print(report: &Report, of: &str, io: &mut Stdio<'_>) {
    for moved in &report.moved {
        io.labelled(
            Tone::Warning,
            "moved aside",
            &format!("{} ({})", name(&moved.path), one_line(&moved.why.to_string())),
        );
        io.say(&format!("             now at {}", name(&moved.to)));
    }
    for restored in &report.restored {
        io.labelled(Tone::Warning, "restored", &name(&restored.path));
    }
    runs_later(report, of, io);
    if report.stopped_early {
        let seen = report.looked_at;
        io.note(&format!(
            "{of}stopped scanning after {seen} files; planted files deeper in the tree would not be found"
        ));
    }
    for failure in &report.errors {
        io.labelled(
            Tone::Bad,
            "error",
            &format!("{}: {}", name(&failure.path), one_line(&failure.what)),
        );
    }
}

fn runs_later(report: &Report, of: &str, io: &mut Stdio<'_>) {
    let count = report.runs_later.len() + report.runs_later_unlisted;
    if count == 0 {
        return;
    }
    let (files, them) = if count == 1 { ("file", "it") } else { ("files", "them") };
    let text = format!("{of}{count} new or changed {files} can run code when you use {them}:");
    io.labelled(Tone::Warning, "warning", &text);
    for later in &report.runs_later {
        let why = io.err_tone(Tone::Quiet, later.why);
        io.say(&format!("  {}  {why}", name(&later.path)));
    }
    if report.runs_later_unlisted > 0 {
        io.say(&format!("  … and {} more", report.runs_later_unlisted));
    }
}

/// Lists paths, one on each line.
#[cfg(feature = "layers")]
pub(crate) fn list(label: &str, paths: &[PathBuf], io: &mut Stdio<'_>) {
    const MOST: usize = 10;
    for path in paths.iter().take(MOST) {
        io.labelled(Tone::Warning, label, &name(path));
    }
    if paths.len() > MOST {
        io.say(&format!("  … and {} more", paths.len() - MOST));
    }
}
