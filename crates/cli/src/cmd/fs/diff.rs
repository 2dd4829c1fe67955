//! `fs diff`: what a filesystem holds that its base does not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_layers::diff::{self, Change, Origin, Past, Record, Side, View, write_patch};
use sandbox_layers::host::HostTree;
use sandbox_layers::tree::{Base as _, Directory};
use sandbox_layers::{Entry, Layer, LayerError, Node, RelPath};
use serde_json::json;

use crate::args::Flags;
use crate::args::fs::Diff;
use crate::cmd::changes::safe;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};
use sandbox_layers::folder::{self, OverlayDir};

/// One line: what happened, to what, where.
struct Line {
    sign: char,
    kind: char,
    path: String,
}

/// Prints `A`, `M` and `D` lines, or a patch.
pub(crate) fn run(flags: &Flags, asked: &Diff, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let (layer, base) = open(asked, here)?;
    let lines = match base.filter(|base| base.is_dir()) {
        Some(base) => {
            let host =
                HostTree::open(&base).map_err(|source| LayerError::Io { path: base, source })?;
            let record = AsItIs(&host);
            let changes = diff::compare(layer.as_ref(), &host, &record)?;
            if asked.patch {
                let view = View { layer: layer.as_ref(), host: &host, record: &record };
                patch(&view, &changes.list, io)?;
                return Ok(0);
            }
            let mut lines: BTreeMap<RelPath, Line> = top_most(&changes.list)
                .map(|change| (change.path.clone(), of_change(change)))
                .collect();
            for entry in layer.entries()? {
                if changes.get(&entry.path).is_none()
                    && let Some(line) = of_attributes(layer.as_ref(), &host, &entry)?
                {
                    lines.insert(entry.path, line);
                }
            }
            lines.into_values().collect()
        }
        // Nothing below, or another database: what is stored is what there is to tell.
        None => layer.entries()?.iter().map(of_entry).collect::<Vec<_>>(),
    };
    show(flags, &lines, io);
    Ok(0)
}

fn open(asked: &Diff, here: &Path) -> Result<(Box<dyn Layer>, Option<PathBuf>), Failed> {
    if let Some(kept) = OverlayDir::find(&asked.target.target, here)? {
        return Ok((Box::new(kept.layer()?), Some(kept.base)));
    }
    let database = folder::open(&asked.target.target, here)?;
    let base = database.base().map(Path::to_owned);
    Ok((Box::new(database), base))
}

/// The base as it is now: a filesystem by itself keeps no record of what it was.
struct AsItIs<'h>(&'h HostTree);

impl Record for AsItIs<'_> {
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError> {
        let found = self.0.stat(path);
        let found =
            found.map_err(|source| LayerError::Io { path: path.as_path().into(), source })?;
        Ok(found.map_or(Origin::Absent, |found| {
            let executable = found.is_executable();
            Origin::There(Past { kind: found.kind, stamp: found.stamp, executable, digest: None })
        }))
    }

    fn ancestor(&self, _: &RelPath) -> Result<Option<Vec<u8>>, LayerError> {
        Ok(None)
    }
}

/// What goes with its directory goes without saying.
fn top_most(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let mut gone: Option<&Path> = None;
    changes.iter().filter(move |change| {
        let path = change.path.as_path();
        if change.after.is_some() {
            return true;
        }
        let below = gone.is_some_and(|top| path.starts_with(top));
        if !below {
            gone = Some(path);
        }
        !below
    })
}

fn of_change(change: &Change) -> Line {
    let (sign, side) = match (&change.before, &change.after) {
        (None, after) => ('A', after),
        (Some(_), Some(_)) => ('M', &change.after),
        (before, None) => ('D', before),
    };
    let kind = match side {
        Some(Side::File { .. }) => 'f',
        Some(Side::Dir) => 'd',
        Some(Side::Symlink { .. }) => 'l',
        Some(Side::Special) | None => '?',
    };
    Line { sign, kind, path: change.path.as_path().to_string_lossy().into_owned() }
}

/// A path whose content is the base's, and whose mode, owner or attributes are not.
fn of_attributes(
    layer: &dyn Layer,
    host: &HostTree,
    entry: &Entry,
) -> Result<Option<Line>, LayerError> {
    let (meta, kind) = match &entry.node {
        Node::File { meta, .. } => (meta, 'f'),
        Node::Dir { meta, .. } => (meta, 'd'),
        Node::Symlink { meta, .. } => (meta, 'l'),
        Node::Special { meta } => (meta, '?'),
        Node::Gone => return Ok(None),
    };
    let path = entry.path.as_path();
    let io = |source| LayerError::Io { path: path.to_owned(), source };
    let Some(base) = host.stat(&entry.path).map_err(io)? else { return Ok(None) };
    let same = (meta.mode & 0o7777, meta.uid, meta.gid) == (base.mode & 0o7777, base.uid, base.gid);
    let own = users(layer.xattrs(&entry.path)?.into_iter());
    let dir = Directory::open(host.path()).map_err(io)?;
    if same && own == users(dir.xattrs(path).map_err(io)?.into_iter().map(|(name, _)| name)) {
        return Ok(None);
    }
    Ok(Some(Line { sign: 'M', kind, path: path.to_string_lossy().into_owned() }))
}

/// Names of attributes that users set; the others are the system's own.
fn users(names: impl Iterator<Item = OsString>) -> BTreeSet<OsString> {
    names.filter(|name| name.as_encoded_bytes().starts_with(b"user.")).collect()
}

fn of_entry(entry: &Entry) -> Line {
    let (sign, kind) = match &entry.node {
        Node::Gone => ('D', '?'),
        Node::Dir { .. } => ('A', 'd'),
        Node::File { .. } => ('A', 'f'),
        Node::Symlink { .. } => ('A', 'l'),
        Node::Special { .. } => ('A', '?'),
    };
    Line { sign, kind, path: entry.path.as_path().to_string_lossy().into_owned() }
}

fn patch(view: &View<'_>, changes: &[Change], io: &mut Stdio<'_>) -> Result<(), Failed> {
    for change in changes {
        let mut bytes = Vec::new();
        write_patch(view, change, &mut bytes)?;
        if io.terminal {
            let text = safe::patch(&bytes, io);
            io.data(&text);
        } else if !io.bytes(&bytes) {
            break;
        }
    }
    Ok(())
}

fn show(flags: &Flags, lines: &[Line], io: &mut Stdio<'_>) {
    if flags.json {
        let word = |kind| match kind {
            'f' => "file",
            'd' => "dir",
            'l' => "symlink",
            _ => "other",
        };
        let rows: Vec<_> = lines
            .iter()
            .map(|line| json!({ "change": line.sign, "type": word(line.kind), "path": line.path }))
            .collect();
        super::super::json(&rows, io);
        return;
    }
    for Line { sign, kind, path } in lines {
        let tone = match sign {
            'A' => Tone::Good,
            'D' => Tone::Bad,
            _ => Tone::Warning,
        };
        let path = visible(path).replace('\n', "\\n");
        let text = format!("{} {kind} /{path}\n", io.tone(tone, &sign.to_string()));
        io.data(&text);
    }
    if lines.is_empty() {
        io.say("no changes");
    }
}
