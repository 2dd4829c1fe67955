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
    /// The file system refused.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The record makes no sense.
    #[error("the record `{}` cannot be read", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Position of the error.
        source: serde_json::Error,
    },
    /// Written by another version of this program.
    #[error("the session `{name}` was written by {} version (format {found}; this version reads {known})", if found > known { "a newer" } else { "another" })]
    Version {
        /// Its name.
        name: String,
        /// Its format.
        found: u32,
        /// Format of this version.
        known: u32,
    },
    /// Nothing by that name.
    #[error("there is no session `{0}`")]
    Unknown(String),
    /// Nothing at all here.
    #[error("there is no session of `{}`", .0.display())]
    None(PathBuf),
    /// The name means several.
    #[error("`{name}` can mean {}", .matches.join(", "))]
    Ambiguous {
        /// The name that was given.
        name: String,
        /// Sessions that match: names with ids.
        matches: Vec<String>,
    },
    /// The name is in use.
    #[error("there is a session `{0}` of this directory already")]
    Taken(String),
    /// There is no such point to go back to.
    #[error("the session `{session}` has no snapshot `{name}`")]
    NoSnapshot {
        /// The session.
        session: String,
        /// The name that was given.
        name: String,
    },
    /// The name of the snapshot is in use.
    #[error("there is a snapshot `{0}` already")]
    SnapshotTaken(String),
    /// The name cannot be used.
    #[error("`{0}` cannot be a name")]
    Name(String),
    /// A process uses it.
    #[error("the session `{name}` is in use{}", .pid.map_or_else(String::new, |pid| format!(" by process {pid}")))]
    Busy {
        /// Its name.
        name: String,
        /// The process, if it is known.
        pid: Option<i32>,
    },
    /// A container works in it.
    #[error("the session `{name}` is up, and its container works in it")]
    Held {
        /// Its name.
        name: String,
    },
    /// A running session moved a directory that it still reads from the project.
    #[error("the session `{name}` moved a directory of the project, and still reads it from there")]
    MovedLive {
        /// Its name.
        name: String,
    },
    /// A root that the session does not have.
    #[error("the session `{name}` has no root {root}")]
    Root {
        /// Its name.
        name: String,
        /// The number.
        root: usize,
    },
    /// The base cannot be seen at a path whose directory hides it.
    #[error("`{}` cannot be thrown away by itself: its directory `{}` was removed and made again", path.display(), dir.display())]
    DiscardBelow {
        /// The path.
        path: PathBuf,
        /// The directory.
        dir: PathBuf,
    },
    /// A snapshot below holds the path, and never changes.
    #[error("`{}` was changed before a snapshot too, which stays as it is", .0.display())]
    DiscardSnapshot(PathBuf),
    /// Only whole sessions of this engine can be thrown away.
    #[error("single paths of the engine {0} cannot be thrown away by this version")]
    DiscardEngine(super::record::LayerEngine),
    /// A database cannot be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A database cannot be served.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// An apply that was reverted cannot be taken out of the base.
    #[error(transparent)]
    Applied(Box<ApplyError>),
}

impl Hint for SessionError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => {
                Some("`agent-sandbox ps` lists the sessions".into())
            }
            Self::None(_) => Some("`agent-sandbox --cow COMMAND` makes one".into()),
            Self::Name(_) => Some(
                "use letters, digits, `.`, `_` and `-`, at most 64, a letter or digit first".into(),
            ),
            Self::DiscardBelow { dir, .. } => {
                Some(format!("throw `{}` away as a whole", dir.display()))
            }
            Self::DiscardSnapshot(_) => {
                Some("`agent-sandbox restore` goes back to a snapshot before it".into())
            }
            Self::DiscardEngine(_) => {
                Some("throw all its changes away, or apply the others".into())
            }
            Self::MovedLive { .. } => Some("apply after the session has ended".into()),
            Self::Busy { .. } => Some("wait until it ends, or use another session".into()),
            Self::Held { name } => Some(format!("take it down first: agent-sandbox down {name}")),
            Self::NoSnapshot { session, .. } => {
                Some(format!("`agent-sandbox history -s {session}` lists them"))
            }
            Self::Taken(_) | Self::SnapshotTaken(_) => Some("choose another name".into()),
            Self::Version { .. } => {
                Some("use the version that wrote it, or another session: `-s NAME`".into())
            }
            Self::Record { path, .. } => {
                let id = path.parent().and_then(Path::file_name).unwrap_or_default();
                let id = id.to_string_lossy();
                Some(format!("to remove a session that cannot be read: agent-sandbox prune {id}"))
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

/// A session whose record this version cannot use.
#[derive(Debug)]
pub(super) struct Unusable {
    pub dir: PathBuf,
    /// None where not even that can be read.
    pub head: Option<Head>,
    pub error: SessionError,
}

/// Says what was being done to a path when it failed.
pub(super) fn cannot<E: Into<io::Error>>(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> SessionError {
    move |error| SessionError::Io { what, path: path.to_path_buf(), source: error.into() }
}
