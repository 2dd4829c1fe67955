//! Small process that detaches a mount if the process that serves it dies.

use std::io::Read;
use std::os::fd::OwnedFd;

use super::attach::{Detach, detach};
use super::table::Row;

/// Starts the watcher. It acts when the returned descriptor is closed for any reason without [`dismiss`]. The caller
/// must have a single thread.
pub(super) fn start(mount: Row) -> std::io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    sandbox_linux::process::fork(move || {
        // In particular the FUSE descriptor, because the connection lives as long as any process holds it.
        match sandbox_linux::fd::keep_only(reader) {
            Ok(reader) => wait(reader, &mount),
            Err(_) => 1,
        }
    })?;
    Ok(writer)
}

/// Ends the watcher after a regular unmount. Another mount may already be in the same place.
pub(super) fn dismiss(watcher: &OwnedFd) {
    // The watcher may have ended.
    let _ = rustix::io::write(watcher, &[1]);
}

fn wait(reader: OwnedFd, mount: &Row) -> i32 {
    let mut end = [0];
    let dismissed = std::fs::File::from(reader).read(&mut end).is_ok_and(|count| count > 0);
    i32::from(!dismissed && mount.is_there() && detach(&mount.mountpoint, Detach::Lazy).is_err())
}
