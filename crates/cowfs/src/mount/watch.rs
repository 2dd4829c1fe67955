//! A second, tiny process that outlives the one that serves a mount, and takes the mount away.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::attach::{Detach, detach};
use super::table;

/// Starts the watcher. It acts when the returned descriptor is closed, by whatever end. The caller
/// must have a single thread.
pub(super) fn start(mountpoint: &Path, mount: u64) -> std::io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mountpoint = mountpoint.to_owned();
    sandbox_linux::process::fork(move || {
        // Above all not the connection itself: as long as somebody holds it, it is not dead.
        match sandbox_linux::fd::keep_only(reader) {
            Ok(reader) => wait(reader, &mountpoint, mount),
            Err(_) => 1,
        }
    })?;
    Ok(writer)
}

fn wait(reader: OwnedFd, mountpoint: &Path, mount: u64) -> i32 {
    let mut end = [0];
    let _ = std::fs::File::from(reader).read(&mut end);
    // By number: another mount may stand there by now.
    let there = table::at(mountpoint).ok().flatten().is_some_and(|row| row.id == mount);
    i32::from(there && detach(mountpoint, Detach::Lazy).is_err())
}
