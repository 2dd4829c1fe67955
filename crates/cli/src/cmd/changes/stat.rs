//! How much changed: one line for each file, and the sum.

use std::fmt::Write as _;
use std::path::Path;

use sandbox_cowfs::diff::{Change, Count, Side};

use super::OpenRoot;
use super::select::Selected;
use crate::cmd::columns;
use crate::run::Failed;
use crate::ui::{Stdio, Tone};

/// A file of this many changed lines has the longest bar.
const WIDEST: usize = 40;

/// One change with what is worth telling about it.
pub(crate) struct Line<'r> {
    pub(crate) root: &'r OpenRoot,
    pub(crate) change: &'r Change,
    pub(crate) count: Count,
    pub(crate) later: Option<String>,
}

/// Whether lines are counted, which takes reading every file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Yes,
    No,
}

/// The selected changes of all roots.
pub(crate) fn lines<'r>(
    roots: &'r [OpenRoot],
    selected: &Selected,
    counted: Counted,
) -> Result<Vec<Line<'r>>, Failed> {
    let mut lines = Vec::new();
    for root in roots {
        let view = root.view();
        for change in
            root.changes.list.iter().filter(|change| selected.has(root.number, &change.path))
        {
            let count = match counted {
                Counted::Yes => view.count(change)?,
                Counted::No => Count::Nothing,
            };
            let later = root.change_later(change);
            lines.push(Line { root, change, count, later });
        }
    }
    Ok(lines)
}

/// `A`, `M`, `D`, `T`: as git says it.
pub(crate) fn letter(change: &Change) -> char {
    match (&change.before, &change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        (Some(Side::File { .. }), Some(Side::File { .. }))
        | (Some(Side::Symlink { .. }), Some(Side::Symlink { .. })) => 'M',
        _ => 'T',
    }
}

/// What stands there now, for a list.
pub(crate) fn slash(change: &Change) -> &'static str {
    let side = change.after.as_ref().or(change.before.as_ref());
    if side == Some(&Side::Dir) { "/" } else { "" }
}

/// The table of `--stat`.
pub(crate) fn table(lines: &[Line<'_>], directory: &Path, io: &Stdio<'_>) -> String {
    let rows: Vec<[String; 3]> = lines
        .iter()
        .map(|line| {
            let name = line.root.shown(line.change, directory) + slash(line.change);
            [letter(line.change).to_string(), name, count(line)]
        })
        .collect();
    let paint = |column: usize, text: &str, _: &[String; 3]| match column {
        2 => signs(text, io),
        _ => text.to_owned(),
    };
    format!("{}{}\n", columns(&rows, paint), total(lines))
}

fn count(line: &Line<'_>) -> String {
    match line.count {
        Count::Lines { added, removed } => {
            let (plus, minus) = bar(added, removed);
            format!("{} {}{}", added + removed, "+".repeat(plus), "-".repeat(minus))
        }
        Count::Bytes { before, after } => format!("{before} -> {after} bytes"),
        Count::Nothing => String::new(),
    }
}

/// How long the two halves of a bar are.
fn bar(added: usize, removed: usize) -> (usize, usize) {
    let all = added + removed;
    if all <= WIDEST {
        return (added, removed);
    }
    let part = |count: usize| (count * WIDEST).div_ceil(all);
    (part(added), part(removed))
}

fn signs(text: &str, io: &Stdio<'_>) -> String {
    let Some(at) = text.find('+').or_else(|| text.find('-')).filter(|_| !text.contains("->"))
    else {
        return text.to_owned();
    };
    let (number, bar) = text.split_at(at);
    let (plus, minus) = bar.split_at(bar.find('-').unwrap_or(bar.len()));
    format!("{number}{}{}", io.tone(Tone::Good, plus), io.tone(Tone::Removed, minus.trim_end()))
}

/// `3 files changed, 10 lines added, 2 removed, 1 file deleted`.
pub(crate) fn total(lines: &[Line<'_>]) -> String {
    let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
    let files: Vec<_> = lines
        .iter()
        .filter(|line| !(is_dir(&line.change.before) && is_dir(&line.change.after)))
        .collect();
    let (mut added, mut removed) = (0, 0);
    for line in &files {
        if let Count::Lines { added: came, removed: went } = line.count {
            (added, removed) = (added + came, removed + went);
        }
    }
    let deleted = files.iter().filter(|line| is_dir(&line.change.after)).count();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = format!("{} file{} changed", files.len(), plural(files.len()));
    if added + removed > 0 {
        let _ = write!(text, ", {added} line{} added, {removed} removed", plural(added));
    }
    if deleted > 0 {
        let _ = write!(text, ", {deleted} file{} deleted", plural(deleted));
    }
    text
}
