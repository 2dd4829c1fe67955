//! `fs import` and `fs export`: copy whole trees into and out of filesystems.

use std::io::{self, BufWriter};
use std::path::Path;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandbox_layers::database::{self, Tables};
use sandbox_layers::transfer::{
    Note, Sink, ToDatabase, ToDir, ToTar, TransferError, Watch, from_database, from_path, from_tar,
};
use serde_json::json;

use crate::args::Flags;
use crate::args::fs::{Export, Format, Import};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};
use sandbox_layers::folder;

/// Creates a filesystem from a tree.
pub(crate) fn import(flags: &Flags, import: &Import, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let path = folder::place(&import.target, here)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Failed::new(error, None))?;
    }
    if import.force {
        database::clear(&path)?;
    }
    let mut sink = Box::new(ToDatabase::new(&path, Tables::All)?);
    let source = here.join(&import.source);
    let moved = with_progress(false, |watch| {
        if import.source == Path::new("-") {
            from_tar(io::stdin().lock(), sink.as_mut(), watch)?;
        } else {
            from_path(&source, sink.as_mut(), watch)?;
        }
        sink.finish()
    })?;
    report(flags, &moved, &path, io);
    Ok(0)
}

/// Exports the whole tree.
pub(crate) fn export(flags: &Flags, export: &Export, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&export.target.target, here)?;
    let to = here.join(&export.destination);
    let mut sink = destination(export, &to)?;
    let moved = with_progress(export.skip, |watch| {
        from_database(&database, sink.as_mut(), watch)?;
        sink.finish()
    })?;
    let streamed = export.destination == Path::new("-");
    report(flags, &moved, if streamed { Path::new("standard output") } else { &to }, io);
    Ok(0)
}

fn destination(export: &Export, to: &Path) -> Result<Box<dyn Sink>, Failed> {
    let extension = to.extension().and_then(|extension| extension.to_str());
    let format = export.format.unwrap_or(match extension {
        _ if export.destination == Path::new("-") => Format::Tar,
        Some("tar") => Format::Tar,
        Some("db") => Format::Db,
        _ => Format::Dir,
    });
    Ok(match format {
        Format::Dir => Box::new(ToDir::new(to)?),
        Format::Db => Box::new(ToDatabase::new(to, Tables::Theirs)?),
        Format::Tar if export.destination == Path::new("-") => {
            Box::new(ToTar::new(BufWriter::new(io::stdout()), Path::new("standard output")))
        }
        Format::Tar => Box::new(ToTar::create(to)?),
    })
}

/// Result of a transfer.
struct Moved {
    items: u64,
    bytes: u64,
    notes: Vec<Note>,
}

/// Runs a transfer, with its progress on the terminal.
fn with_progress(
    skip: bool,
    run: impl FnOnce(&mut Watch<'_>) -> Result<(), TransferError>,
) -> Result<Moved, TransferError> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let (mut items, mut bytes) = (0, 0);
    let mut progress = |done, size| {
        (items, bytes) = (done, size);
        bar.set_message(format!("{done} entries, {}", HumanBytes(size)));
        bar.tick();
    };
    let mut watch = Watch::new(skip, &mut progress);
    let result = run(&mut watch);
    let notes = std::mem::take(&mut watch.notes);
    bar.finish_and_clear();
    result.map(|()| Moved { items, bytes, notes })
}

fn report(flags: &Flags, moved: &Moved, to: &Path, io: &mut Stdio<'_>) {
    for note in &moved.notes {
        io.note(&one_line(&format!("skipped `{}`: {}", note.path.display(), note.what)));
    }
    if flags.json {
        let notes: Vec<_> = moved
            .notes
            .iter()
            .map(|note| json!({ "path": note.path.to_string_lossy(), "what": note.what }))
            .collect();
        let value =
            json!({ "to": to, "entries": moved.items, "bytes": moved.bytes, "left_out": notes });
        super::super::json(&value, io);
        return;
    }
    let text =
        format!("{} entries, {}, to `{}`", moved.items, HumanBytes(moved.bytes), to.display());
    io.labelled(Tone::Good, "written", &one_line(&text));
}
