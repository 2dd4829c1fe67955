//! `fs diff`: lists the changes of a filesystem relative to its base.

use std::path::{Path, PathBuf};

use sandbox_layers::Layer;
use sandbox_layers::diff::listing::{self, Line, Listing};
use sandbox_layers::folder::{self, OverlayDir};
use serde_json::json;

use crate::args::Flags;
use crate::args::fs::Diff;
use crate::cmd::changes::safe;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Prints `A`, `M` and `D` lines, or a patch.
pub(crate) fn run(flags: &Flags, asked: &Diff, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let (layer, base) = open(asked, here)?;
    let lines = match base.filter(|base| base.is_dir()) {
        Some(base) => {
            let listing = Listing::of(layer.as_ref(), &base)?;
            if asked.patch {
                patch(&listing, io)?;
                return Ok(0);
            }
            listing.lines()?
        }
        // Without a base directory, every stored entry is a change.
        None => listing::entries(layer.as_ref())?,
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

fn patch(listing: &Listing<'_>, io: &mut Stdio<'_>) -> Result<(), Failed> {
    for bytes in listing.patches() {
        let bytes = bytes?;
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
