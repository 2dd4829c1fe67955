//! Sizes of changes: a row for each file, and the sum.

use std::path::Path;

use sandbox_layers::diff::{Change, Count, Side};
use sandbox_layers::review::{Line, Shown, Total, shown as shown_name};

use crate::cmd::columns;
use crate::ui::{Stdio, Tone, and_more};

/// Greatest width of a bar.
const WIDEST: usize = 40;

/// Returns `/` for a directory.
pub(crate) fn slash(change: &Change) -> &'static str {
    let side = change.after.as_ref().or(change.before.as_ref());
    if side == Some(&Side::Dir) { "/" } else { "" }
}

/// Formats the table of `--stat`, with as many rows as `most` allows.
pub(crate) fn table(
    lines: &[Line<'_>],
    shown: &[Shown<'_>],
    directory: &Path,
    most: impl Fn(usize) -> usize,
    io: &Stdio<'_>,
) -> String {
    let files = lines.iter().map(|line| {
        let name = shown_name(line.root, line.change, directory) + slash(line.change);
        [line.letter().to_string(), name, count(line)]
    });
    let git = shown.iter().flat_map(|shown| shown.rows(directory));
    let rows: Vec<[String; 3]> = files.chain(git).collect();
    let paint = |column: usize, text: &str, _: &[String; 3]| match column {
        2 if text.ends_with(['+', '-']) => signs(text, io),
        _ => text.to_owned(),
    };
    let refs: usize = shown.iter().map(|shown| shown.repository.changes.refs.len()).sum();
    let refs = match refs {
        0 => String::new(),
        1 => ", 1 ref of git".into(),
        count => format!(", {count} refs of git"),
    };
    let most = most(rows.len());
    let left = match rows.len() - most {
        0 => String::new(),
        left => and_more(left) + "\n",
    };
    format!("{}{left}{}{refs}\n", columns(&rows[..most], paint), Total::of(lines))
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

/// Returns the widths of the two parts of a bar.
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
