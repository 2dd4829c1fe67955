//! The broker's socket and its name in the file system.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use sandbox_linux::inotify::Inotify;

/// Binds the socket. Its directory controls access, because ids inside a container may differ from the host's.
pub(super) fn bind(socket: &Path) -> io::Result<(UnixListener, BoundSocket)> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    let bound = BoundSocket::watch(socket)?;
    Ok((listener, bound))
}

/// Name of the socket, while it refers to this process.
pub(super) struct BoundSocket {
    path: PathBuf,
    id: (u64, u64),
    pub(super) changes: Inotify,
}

impl BoundSocket {
    fn watch(socket: &Path) -> io::Result<Self> {
        let changes = Inotify::new()?;
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        changes.add(folder.unwrap_or(Path::new(".")))?;
        let path = std::path::absolute(socket)?;
        let id = id(&path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { path, id, changes })
    }

    /// Returns true if clients can still reach this process. A broker without its socket has lost its session.
    pub(super) fn is_ours(&self) -> bool {
        self.changes.drain();
        id(&self.path) == Some(self.id)
    }

    /// Removes the socket unless it belongs to another process by now.
    pub(super) fn remove(&self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn id(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
