//! Unix socket of the server. One process at a time binds it, and removes only its own.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sandbox_linux::lock::LockFile;
use tokio::net::UnixListener;

use super::ServeError;

/// Time to wait for other processes that bind or remove a socket in the same directory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Identity of a file: device and inode.
pub(super) type Identity = (u64, u64);

/// Binds a socket with mode 0600 from the start. Replaces one that no process listens on.
pub(super) fn bind(path: &Path) -> Result<(UnixListener, Identity), ServeError> {
    let failed = |error| ServeError::Listen(path.display().to_string(), error);
    let _turn = turn(path).map_err(failed)?;
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // `bind` reports a file that is not a socket.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
                fs::remove_file(path).map_err(failed)?;
            }
        }
        // A server that is too busy to accept is still a server.
        Ok(_) => return Err(ServeError::Taken(path.to_path_buf())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(ServeError::Taken(path.to_path_buf()));
        }
        Err(error) => return Err(failed(error)),
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let bound = bound.map_err(failed)?;
    Ok((bound, identity(path).map_err(failed)?))
}

/// Removes the socket that this process bound, but not one that replaced it.
pub(super) fn remove(path: &Path, bound: Identity) {
    let Ok(_turn) = turn(path) else { return };
    if identity(path).is_ok_and(|there| there == bound) {
        // On failure, the next server replaces it.
        let _ = fs::remove_file(path);
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|there| (there.dev(), there.ino()))
}

/// Locks the directory against other processes that bind or remove a socket there. A directory that another program
/// keeps locked is used after a timeout.
fn turn(path: &Path) -> io::Result<LockFile> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = LockFile::existing(parent.unwrap_or(Path::new(".")))?;
    let _ = dir.exclusive_within(PATIENCE);
    Ok(dir)
}
