//! A second, tiny process that outlives the one that serves a mount, and takes the mount away.

use std::io::Read;
use std::os::fd::OwnedFd;

use super::attach::{Detach, detach};
use super::table::Row;

/// Starts the watcher. It acts when the returned descriptor is closed, by whatever end, before it was dismissed. The caller
/// must have a single thread.
pub(super) fn start(mount: Row) -> std::io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    sandbox_linux::process::fork(move || {
        // Above all not the connection itself: as long as somebody holds it, it is not dead.
        match sandbox_linux::fd::keep_only(reader) {
            Ok(reader) => wait(reader, &mount),
            Err(_) => 1,
        }
    })?;
    Ok(writer)
}

/// The mount is gone in good order: while the database came to rest, another may have been put in its place.
pub(super) fn dismiss(watcher: &OwnedFd) {
    // One that is gone does nothing either.
    let _ = rustix::io::write(watcher, &[1]);
}

fn wait(reader: OwnedFd, mount: &Row) -> i32 {
    let mut end = [0];
    let dismissed = std::fs::File::from(reader).read(&mut end).is_ok_and(|count| count > 0);
    i32::from(!dismissed && mount.is_there() && detach(&mount.mountpoint, Detach::Lazy).is_err())
}
