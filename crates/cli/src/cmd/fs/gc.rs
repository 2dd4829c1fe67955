//! `fs gc`: one file, without what belongs to nothing, and no larger than it must be.

use std::path::Path;

use indicatif::HumanBytes;
use sandbox_layers::database::{Collected, collect};

use sandbox_layers::folder;

use super::in_use;
use crate::args::Flags;
use crate::args::fs::Target;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Collects, and says what was done.
pub(crate) fn run(flags: &Flags, target: &Target, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let path = folder::existing(&target.target, here)?;
    in_use::refuse(&path)?;
    let collected = collect(&path)?;
    if flags.json {
        super::super::json(&collected, io);
        return Ok(0);
    }
    let Collected { nameless, rows, strays, before, after } = collected;
    let text = format!(
        "{} → {}; {nameless} files without a name, {rows} rows and {strays} loose files of nothing",
        HumanBytes(before),
        HumanBytes(after)
    );
    io.labelled(Tone::Good, "collected", &text);
    Ok(0)
}
