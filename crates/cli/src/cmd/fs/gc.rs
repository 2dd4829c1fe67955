//! `fs gc`: removes leftovers of a filesystem, and frees disk space.

use std::path::Path;

use indicatif::HumanBytes;
use sandbox_layers::database::{Collected, check_unused, collect};

use sandbox_layers::folder;

use crate::args::Flags;
use crate::args::fs::Target;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Removes leftovers, and prints how much space that freed.
pub(crate) fn run(flags: &Flags, target: &Target, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let path = folder::existing(&target.target, here)?;
    check_unused(&path)?;
    let collected = collect(&path)?;
    if flags.json {
        super::super::json(&collected, io);
        return Ok(0);
    }
    let Collected { nameless, rows, strays, before, after } = collected;
    let (before, after) = (HumanBytes(before), HumanBytes(after));
    let text = format!(
        "{before} → {after}; unnamed files: {nameless}, unused rows: {rows}, stray files: {strays}"
    );
    io.labelled(Tone::Good, "removed leftovers", &text);
    Ok(0)
}
