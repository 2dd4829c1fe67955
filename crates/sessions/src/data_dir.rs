//! Data directory of sessions, below the user's data directory. No sandbox can see it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;

use crate::error::{ControlError, cannot};
use crate::session::SessionId;

/// The data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// Returns the user's data directory, which may not exist yet.
    pub fn of(host: &Host) -> Result<Self, ControlError> {
        let data = host.data_dir().ok_or(ControlError::NoHome)?;
        Ok(Self(std::fs::canonicalize(&data).unwrap_or(data)))
    }

    /// Returns a data directory at another path.
    pub fn at(data: impl Into<PathBuf>) -> Self {
        Self(data.into())
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the session database.
    pub fn database(&self) -> PathBuf {
        self.0.join("sessions.db")
    }

    /// Returns true when the database exists.
    pub fn is_used(&self) -> bool {
        self.database().try_exists().unwrap_or(true)
    }

    /// Returns the runtime directory of a session.
    pub fn runtime(&self, id: &SessionId) -> PathBuf {
        self.0.join("up").join(id.as_str())
    }

    /// Returns the lock file of a session.
    pub(crate) fn lock(&self, id: &SessionId) -> PathBuf {
        self.0.join("up").join(format!("{id}.lock"))
    }

    /// Returns the log of a session's programs and its supervisor.
    pub fn log(&self, id: &SessionId) -> PathBuf {
        self.0.join("logs").join(format!("{id}.log"))
    }

    /// Returns the previous part of the log, after rotation.
    pub(crate) fn old_log(&self, id: &SessionId) -> PathBuf {
        self.0.join("logs").join(format!("{id}.log.1"))
    }

    /// Creates the directories that all sessions share.
    pub(crate) fn make(&self) -> Result<(), ControlError> {
        for dir in [self.0.clone(), self.0.join("up"), self.0.join("logs")] {
            private_dir(&dir).map_err(cannot("create", &dir))?;
        }
        Ok(())
    }
}

/// Creates a directory that only its owner can enter, and its parents.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
