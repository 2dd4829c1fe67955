//! `fs`: creates, mounts and inspects copy-on-write filesystems. One file per command.

pub(crate) mod agentfs;
pub(crate) mod init;
pub(crate) mod ls;
pub(crate) mod diff;
pub(crate) mod history;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod transfer;
pub(crate) mod mount;
pub(crate) mod ps;

use std::path::PathBuf;

use sandbox_policy::Host;

use crate::args::Flags;
use crate::args::fs::Fs;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Runs a subcommand.
pub(crate) fn run(flags: &Flags, command: Fs, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let here = here(flags, host)?;
    match command {
        Fs::Init(init) => init::run(flags, &init, &here, io),
        Fs::Ls(ls) => ls::ls(flags, &ls, &here, io),
        Fs::Cat(cat) => ls::cat(flags, &cat, &here, io),
        Fs::Diff(diff) => diff::run(flags, &diff, &here, io),
        Fs::History(history) => history::run(flags, &history, &here, io),
        Fs::Fsck(fsck) => fsck::run(flags, &fsck, &here, io),
        Fs::Import(import) => transfer::import(flags, &import, &here, io),
        Fs::Export(export) => transfer::export(flags, &export, &here, io),
        Fs::Mount(mount) => mount::mount(flags, &mount, &here, host, io),
        Fs::Unmount(unmount) => mount::unmount(&unmount, &here, host, io),
        Fs::Ps => ps::run(flags, host, io),
        Fs::Gc(target) => gc::run(flags, &target, &here, io),
    }
}

/// Returns the directory that paths and IDs of databases are relative to.
pub(crate) fn here(flags: &Flags, host: &Host) -> Result<PathBuf, Failed> {
    let cwd = host.cwd.clone().ok_or_else(|| {
        Failed::new(std::io::Error::other("the current directory has been deleted"), None)
    })?;
    Ok(match &flags.cwd {
        Some(dir) => cwd.join(dir),
        None => cwd,
    })
}
