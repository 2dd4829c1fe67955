//! Paths of a user's proxy: sockets, state files and logs.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_policy::Host;

/// Directories of one user's proxy. They are hidden from sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyDirs {
    sockets: PathBuf,
    state: PathBuf,
}

impl ProxyDirs {
    /// Returns the user's directories: sockets below `$XDG_RUNTIME_DIR` if it is set, files in the state directory.
    pub fn of(host: &Host) -> Option<Self> {
        let state = host.state_dir()?.join("proxy");
        let runtime =
            host.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let sockets = runtime.map_or_else(|| state.clone(), |dir| dir.join("agent-sandbox/proxy"));
        Some(Self { sockets, state })
    }

    /// Returns a layout with everything in one directory.
    pub fn at(dir: &Path) -> Self {
        Self { sockets: dir.to_owned(), state: dir.to_owned() }
    }

    /// Returns the socket of the admin interface.
    pub fn admin(&self) -> PathBuf {
        self.sockets.join("admin")
    }

    /// Returns the socket to which sandboxes pass their listeners.
    pub fn attach(&self) -> PathBuf {
        self.sockets.join("attach")
    }

    /// Returns the file with the saved sessions.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions.json")
    }

    /// Returns the file with the saved rendezvous sockets.
    pub fn rendezvous(&self) -> PathBuf {
        self.state.join("doors.json")
    }

    /// Returns the audit log.
    pub fn audit(&self) -> PathBuf {
        self.state.join("audit.jsonl")
    }

    /// Returns the log of a background proxy.
    pub fn log(&self) -> PathBuf {
        self.state.join("log")
    }

    /// Returns the lock file, held by the running proxy.
    pub fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// Creates the directories with mode 0700.
    pub fn prepare(&self) -> io::Result<()> {
        private_dir(&self.state)?;
        private_dir(&self.sockets)
    }
}

fn private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = std::fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let wrong = format!("`{}` is not a directory that you own", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}
