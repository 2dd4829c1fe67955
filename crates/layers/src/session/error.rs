//! Errors of sessions.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::record::Head;
use crate::apply::ApplyError;
use crate::change::LayerError;
use crate::database::CreateError;
use crate::mount::MountError;

/// Failure to work on a session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A file system operation failed.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// Path of the operation.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The record is invalid.
    #[error("cannot read the session record `{}`", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Position of the error.
        source: serde_json::Error,
    },
    /// The session was written by another version of this program.
    #[error("session `{name}` was written by {} version (format {found}; this version reads {known})", if found > known { "a newer" } else { "another" })]
    Version {
        /// Name of the session.
        name: String,
        /// Format of its record.
        found: u32,
        /// Format that this version reads.
        known: u32,
    },
    /// No session has the name.
    #[error("there is no session `{0}`")]
    Unknown(String),
    /// There is no session for the directory.
    #[error("there is no session of `{}`", .0.display())]
    None(PathBuf),
    /// The name matches several sessions.
    #[error("`{name}` is ambiguous: {}", .matches.join(", "))]
    Ambiguous {
        /// Requested name.
        name: String,
        /// Sessions that match: names with ids.
        matches: Vec<String>,
    },
    /// The name is in use.
    #[error("session `{0}` already exists in this directory")]
    Taken(String),
    /// The snapshot does not exist.
    #[error("session `{session}` has no snapshot `{name}`")]
    NoSnapshot {
        /// The session.
        session: String,
        /// Requested name.
        name: String,
    },
    /// The name of the snapshot is in use.
    #[error("snapshot `{0}` already exists")]
    SnapshotTaken(String),
    /// The name is invalid.
    #[error("invalid name `{0}`")]
    Name(String),
    /// A process uses the session.
    #[error("session `{name}` is in use{}", .pid.map_or_else(String::new, |pid| format!(" by process {pid}")))]
    Busy {
        /// Name of the session.
        name: String,
        /// The process, if it is known.
        pid: Option<i32>,
    },
    /// A container uses the session.
    #[error("session `{name}` is up and in use by its container")]
    Held {
        /// Name of the session.
        name: String,
    },
    /// A running session moved a directory that it still reads from the project.
    #[error(
        "session `{name}` moved a directory of the project and still reads it from its original path"
    )]
    MovedLive {
        /// Name of the session.
        name: String,
    },
    /// The session does not have the root.
    #[error("session `{name}` has no root {root}")]
    Root {
        /// Name of the session.
        name: String,
        /// The number.
        root: usize,
    },
    /// The path is below a directory that hides the base.
    #[error("cannot discard only `{}`: its directory `{}` was removed and recreated", path.display(), dir.display())]
    DiscardBelow {
        /// The path.
        path: PathBuf,
        /// The directory.
        dir: PathBuf,
    },
    /// A snapshot holds the path, and snapshots never change.
    #[error("cannot discard `{}`: a snapshot contains it", .0.display())]
    DiscardSnapshot(PathBuf),
    /// The engine supports discarding all changes only.
    #[error("cannot discard single paths of the engine {0}")]
    DiscardEngine(super::record::LayerEngine),
    /// A database cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A database cannot be served.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A reverted apply cannot be removed from the record of the base.
    #[error(transparent)]
    Applied(Box<ApplyError>),
}

impl Hint for SessionError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) | Self::None(_) | Self::NoSnapshot { .. } => "not_found",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Taken(_) | Self::SnapshotTaken(_) => "name_taken",
            Self::Name(_) => "invalid_name",
            Self::Busy { .. } | Self::Held { .. } | Self::MovedLive { .. } => "in_use",
            Self::DiscardBelow { .. } | Self::DiscardSnapshot(_) | Self::DiscardEngine(_) => {
                "unsupported"
            }
            Self::Version { .. } => "other_version",
            _ => "storage",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => {
                Some("list the sessions with `agent-sandbox ps`".into())
            }
            Self::None(_) => Some("create one with `agent-sandbox --cow COMMAND`".into()),
            Self::Name(_) => Some(
                "use at most 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
                    .into(),
            ),
            Self::DiscardBelow { dir, .. } => Some(format!("discard all of `{}`", dir.display())),
            Self::DiscardSnapshot(_) => {
                Some("use `agent-sandbox restore` to return to an earlier snapshot".into())
            }
            Self::DiscardEngine(_) => Some("discard all changes, or apply the others".into()),
            Self::MovedLive { .. } => Some("apply after the session has ended".into()),
            Self::Busy { .. } => Some("wait until it ends, or use another session".into()),
            Self::Held { name } => Some(format!("stop it first: agent-sandbox down {name}")),
            Self::NoSnapshot { session, .. } => {
                Some(format!("list the snapshots with `agent-sandbox history -s {session}`"))
            }
            Self::Taken(_) | Self::SnapshotTaken(_) => Some("choose another name".into()),
            Self::Version { .. } => {
                Some("use the version that wrote it, or another session: `-s NAME`".into())
            }
            Self::Record { path, .. } => {
                let id = path.parent().and_then(Path::file_name).unwrap_or_default();
                let id = id.to_string_lossy();
                Some(format!("remove an unreadable session with `agent-sandbox prune {id}`"))
            }
            Self::Mount(error) => error.hint(),
            Self::Layer(error @ (LayerError::Moved { .. } | LayerError::Newer { .. })) => {
                error.hint()
            }
            _ => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => ExitCode::Usage,
            _ => ExitCode::Setup,
        }
    }
}

/// Session whose record this version cannot read.
#[derive(Debug)]
pub(super) struct Unusable {
    pub dir: PathBuf,
    /// Common fields, if they can be read.
    pub head: Option<Head>,
    pub error: SessionError,
}

/// Returns a function that adds the operation and its path to an error.
pub(super) fn cannot<E: Into<io::Error>>(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> SessionError {
    move |error| SessionError::Io { what, path: path.to_path_buf(), source: error.into() }
}
