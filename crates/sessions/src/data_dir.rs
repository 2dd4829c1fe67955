//! Where sessions keep what they need: below the user's data directory, which no sandbox sees.

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
    /// The user's own, which need not exist yet.
    pub fn of(host: &Host) -> Result<Self, ControlError> {
        let data = host.data_dir().ok_or(ControlError::NoHome)?;
        Ok(Self(std::fs::canonicalize(&data).unwrap_or(data)))
    }

    /// Another one.
    pub fn at(data: impl Into<PathBuf>) -> Self {
        Self(data.into())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The record of all sessions.
    pub fn database(&self) -> PathBuf {
        self.0.join("sessions.db")
    }

    /// Whether there has ever been a session.
    pub fn is_used(&self) -> bool {
        self.database().try_exists().unwrap_or(true)
    }

    /// What a session has while it is up.
    pub fn runtime(&self, id: &SessionId) -> PathBuf {
        self.0.join("up").join(id.as_str())
    }

    /// Who works on a session holds this.
    pub(crate) fn lock(&self, id: &SessionId) -> PathBuf {
        self.0.join("up").join(format!("{id}.lock"))
    }

    /// What a session's programs and its supervisor said.
    pub fn log(&self, id: &SessionId) -> PathBuf {
        self.0.join("logs").join(format!("{id}.log"))
    }

    /// The part of the log before the present one.
    pub fn old_log(&self, id: &SessionId) -> PathBuf {
        self.0.join("logs").join(format!("{id}.log.1"))
    }

    /// Makes the directories that every session needs.
    pub(crate) fn make(&self) -> Result<(), ControlError> {
        for dir in [self.0.clone(), self.0.join("up"), self.0.join("logs")] {
            private_dir(&dir).map_err(cannot("make", &dir))?;
        }
        Ok(())
    }
}

/// A directory that only its owner can enter, with those above it.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
