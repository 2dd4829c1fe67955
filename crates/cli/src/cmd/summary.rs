//! What a session's layers change, in a few lines.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sandbox_core::guard;
use sandbox_cowfs::RelPath;
use sandbox_cowfs::diff::{Change, Count, View, compare};
use sandbox_cowfs::host::HostTree;
use sandbox_cowfs::session::Session;

use super::cow;
use super::report::name;
use crate::ui::{Stdio, Tone};

/// How much changed, and what of it runs code later.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Files and links outside of repositories' own directories.
    pub files: usize,
    /// Files of repositories' own directories.
    pub git: usize,
    pub added: usize,
    pub removed: usize,
    /// Paths on the host, and who runs them.
    pub later: Vec<(PathBuf, &'static str)>,
    /// More changed than was looked at.
    pub truncated: bool,
}

/// Line counts of more files than this are not worth the wait.
const COUNTED: usize = 2000;

impl Summary {
    pub(crate) fn is_empty(&self) -> bool {
        self.files + self.git == 0
    }

    fn add(&mut self, change: &Change, view: &View<'_>, base: &Path) -> Result<(), Box<dyn Error>> {
        let is_dir = |side| matches!(side, Some(sandbox_cowfs::diff::Side::Dir));
        if is_dir(change.after.clone()) || change.after.is_none() && is_dir(change.before.clone()) {
            return Ok(());
        }
        let why = change.after.as_ref().and_then(|_| guard::runs_later(change.path.as_path()));
        self.later.extend(why.map(|why| (base.join(change.path.as_path()), why)));
        if is_in_git(&change.path) {
            self.git += 1;
            return Ok(());
        }
        self.files += 1;
        if self.files > COUNTED {
            self.truncated = true;
        } else if let Count::Lines { added, removed } = view.count(change)? {
            self.added += added;
            self.removed += removed;
        }
        Ok(())
    }
}

fn is_in_git(path: &RelPath) -> bool {
    path.as_path().iter().any(|part| part == ".git")
}

/// Sums a session up.
pub(crate) fn of(session: &Session) -> Result<Summary, Box<dyn Error>> {
    let mut summary = Summary::default();
    for number in 0..session.record().roots.len() {
        let base = session.base_dir(number)?;
        let (layer, record) = (session.layer(number)?, session.base_record(number)?);
        let host = HostTree::open(base)?;
        let changes = compare(layer.as_ref(), &host, &record)?;
        let view = View { layer: layer.as_ref(), host: &host, record: &record };
        for change in &changes.list {
            summary.add(change, &view, base)?;
        }
        summary.truncated |= changes.truncated;
    }
    Ok(summary)
}

/// Prints it: what runs code later first, then how much, then what to do next.
pub(crate) fn print(summary: &Summary, session: &Session, shifted: &[PathBuf], io: &mut Stdio<'_>) {
    let called = &session.record().name;
    if !summary.later.is_empty() {
        let count = summary.later.len();
        let files = if count == 1 { "file that runs" } else { "files that run" };
        let text = format!("{count} new or changed {files} code later, once applied:");
        io.labelled(Tone::Warning, "note", &text);
        for (path, why) in summary.later.iter().take(guard::MAX_LISTED) {
            let why = io.err_tone(Tone::Quiet, why);
            io.say(&format!("  {}  {why}", name(path)));
        }
        if count > guard::MAX_LISTED {
            io.say(&format!("  … and {} more", count - guard::MAX_LISTED));
        }
    }
    cow::list("changed on the host meanwhile", shifted, io);
    let label = io.err_tone(Tone::Strong, &format!("session {called}"));
    if summary.is_empty() {
        return io.say(&format!("{label}: nothing is changed"));
    }
    io.say(&format!("{label}: {}", words(summary)));
    io.say(&format!(
        "  next: agent-sandbox diff -s {called} · agent-sandbox apply -s {called} · agent-sandbox discard -s {called}"
    ));
}

/// `2 files changed, 3 lines added, 1 removed, and 5 files of git`.
pub(crate) fn words(summary: &Summary) -> String {
    let Summary { files, git, added, removed, .. } = *summary;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = format!("{files} file{} changed", plural(files));
    if added + removed > 0 {
        let more = if summary.truncated { "more than " } else { "" };
        let _ = write!(text, ", {more}{added} line{} added, {removed} removed", plural(added));
    }
    if git > 0 {
        let _ = write!(text, ", and {git} file{} in .git", plural(git));
    }
    text
}
