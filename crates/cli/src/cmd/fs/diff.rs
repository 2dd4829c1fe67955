//! `fs diff`: what a filesystem holds that its base does not.

use std::path::Path;

use sandbox_cowfs::database::{Database, Inode};
use sandbox_cowfs::{Entry, Layer, LayerError, Node};
use serde_json::json;

use super::ls::{kind, letter};
use super::target;
use crate::args::Flags;
use crate::args::fs::Target;
use crate::run::Outcome;
use crate::ui::{Stdio, Tone, visible};

/// One line: what happened, to what, where.
struct Change {
    sign: char,
    mode: u32,
    path: String,
}

/// Prints `A`, `M` and `D` lines.
pub(crate) fn run(flags: &Flags, target: &Target, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = target::open(&target.target, here)?;
    let mut changes = Vec::new();
    for entry in database.entries()? {
        changes.extend(change(&database, &entry)?);
    }
    if flags.json {
        let rows: Vec<_> = changes
            .iter()
            .map(|change| {
                json!({ "change": change.sign, "type": kind(change.mode), "path": change.path })
            })
            .collect();
        super::super::json(&rows, io);
        return Ok(0);
    }
    for Change { sign, mode, path } in &changes {
        let tone = match sign {
            'A' => Tone::Good,
            'D' => Tone::Bad,
            _ => Tone::Warning,
        };
        let path = visible(path).replace('\n', "\\n");
        let text = format!("{} {} /{path}\n", io.tone(tone, &sign.to_string()), letter(*mode));
        io.data(&text);
    }
    if changes.is_empty() {
        io.say("no changes");
    }
    Ok(0)
}

fn change(database: &Database, entry: &Entry) -> Result<Option<Change>, LayerError> {
    let before = database.in_base(entry.path.as_path())?;
    let path = entry.path.as_path().to_string_lossy().into_owned();
    let sign = match (&entry.node, before) {
        (Node::Gone, None) => return Ok(None),
        (Node::Gone, Some(before)) => {
            return Ok(Some(Change { sign: 'D', mode: before.mode, path }));
        }
        (_, None) => 'A',
        // A directory is taken into the layer for the sake of what is in it.
        (Node::Dir { meta, opaque: false }, Some(before)) if same(before, meta.mode) => {
            return Ok(None);
        }
        (_, Some(_)) => 'M',
    };
    let found = database.find(entry.path.as_path())?;
    Ok(found.map(|spot| Change { sign, mode: spot.inode.mode, path }))
}

fn same(before: Inode, mode: u32) -> bool {
    before.is_dir() && before.mode & 0o7777 == mode
}
