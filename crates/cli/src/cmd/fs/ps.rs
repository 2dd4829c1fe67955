//! `fs ps`: lists mounts.

use sandbox_layers::mount::MountState;
use sandbox_layers::mount::record::{folder, list};
use sandbox_policy::Host;

use crate::args::Flags;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Prints a row for each mount, with its state according to the kernel.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let folder = host.state_dir().map(|state| folder(&state));
    let mounts = list(folder.as_deref()).map_err(|error| Failed::new(error, None))?;
    if flags.json {
        super::super::json(&mounts, io);
        return Ok(0);
    }
    let mut rows =
        vec![["MOUNTPOINT", "DATABASE", "BASE", "ENGINE", "PID", "STATE"].map(str::to_owned)];
    rows.extend(mounts.iter().map(|mount| {
        let state = match mount.state {
            MountState::Mounted => "mounted",
            MountState::Stale => "stale",
            MountState::Foreign => "foreign",
        };
        [
            name(&mount.mountpoint),
            name(&mount.database),
            mount.base.as_deref().map_or_else(|| "-".into(), name),
            mount.engine.clone(),
            mount.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
            state.into(),
        ]
    }));
    if mounts.is_empty() {
        io.say("no mounts");
        return Ok(0);
    }
    let text = super::super::columns(&rows, |column, text, row| match (column, row[5].as_str()) {
        (_, "STATE") => io.tone(Tone::Quiet, text),
        (5, "mounted") => io.tone(Tone::Good, text),
        (5, "stale") => io.tone(Tone::Bad, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    if mounts.iter().any(|mount| mount.state == MountState::Stale) {
        io.hint("`agent-sandbox fs unmount MOUNTPOINT` clears a stale mount");
    }
    Ok(0)
}
