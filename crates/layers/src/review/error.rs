//! Errors of a review.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::apply::ApplyError;
use crate::diff::DiffError;
use crate::git::InspectError;
use crate::session::SessionError;

/// Reason why a review failed.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// Directory of the session that cannot be opened on the host.
    #[error("cannot open `{}`", path.display())]
    Root {
        /// Directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Path outside all directories of the session.
    #[error("`{}` is not in a directory of the session `{session}`", path.display())]
    Elsewhere {
        /// Path.
        path: PathBuf,
        /// Name of the session.
        session: String,
    },
    /// Session with running processes.
    #[error("the session `{0}` is running")]
    Running(String),
    /// Interrupted apply or undo, which has left the project incomplete.
    #[error("{what} of the session `{name}` was interrupted and is incomplete")]
    HalfDone {
        /// `an apply` or `an undo`.
        what: &'static str,
        /// Name of the session.
        name: String,
        /// Commands that end it.
        remedy: String,
    },
    /// Session used by a container.
    #[error("the session `{0}` is up")]
    Up(String),
    /// Session that cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Layer and host that cannot be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Changes that cannot be applied or reverted.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Interrupted apply that cannot be completed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// Commits that cannot be inspected.
    #[error(transparent)]
    Git(#[from] InspectError),
}

impl ReviewError {
    /// Returns a code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Elsewhere { .. } => "invalid",
            Self::Running(_)
            | Self::Up(_)
            | Self::Session(
                SessionError::Busy { .. }
                | SessionError::Held { .. }
                | SessionError::MovedLive { .. },
            ) => "in_use",
            Self::Session(
                SessionError::DiscardBelow { .. }
                | SessionError::DiscardSnapshot(_)
                | SessionError::DiscardEngine(_),
            ) => "unsupported",
            Self::Apply(
                ApplyError::Raced { .. }
                | ApplyError::Changed { .. }
                | ApplyError::RolledBack { .. },
            ) => "raced",
            Self::HalfDone { .. } => "half_done",
            Self::Git(_) => "git",
            _ => "storage",
        }
    }
}

impl Hint for ReviewError {
    fn code(&self) -> &'static str {
        match self {
            Self::Session(error) => Hint::code(error),
            _ => Self::code(self),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Running(_) => Some("wait until it ends, or end it".into()),
            Self::Up(name) => Some(format!("take it down first: agent-sandbox down {name}")),
            Self::HalfDone { remedy, .. } => Some(remedy.clone()),
            Self::Session(error) => error.hint(),
            Self::Apply(error) => error.hint(),
            Self::Resume(error) => error.hint(),
            Self::Root { .. } | Self::Elsewhere { .. } | Self::Diff(_) | Self::Git(_) => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Elsewhere { .. } => ExitCode::Usage,
            _ => ExitCode::Failure,
        }
    }
}

/// Failure to complete an interrupted apply, which can still be reverted.
#[derive(Debug)]
pub struct ResumeError {
    /// Name of the session.
    pub session: String,
    /// Failed step.
    pub error: ApplyError,
}

impl Hint for ResumeError {
    fn hint(&self) -> Option<String> {
        Some(format!("`agent-sandbox undo -s {} --partial` reverts it", self.session))
    }
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for ResumeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
