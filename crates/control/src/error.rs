//! Why something could not be done to a session.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::backend::BackendError;
use crate::session::BackendKind;

/// Why something could not be done to a session.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nothing says where.
    #[error("there is no home directory to keep sessions in")]
    NoHome,
    /// A word that cannot be a name.
    #[error("`{}` cannot be the name of a session", .0.escape_debug())]
    Name(String),
    /// The name is another session's.
    #[error("the name `{name}` is taken by a session of `{}`", project.display())]
    Taken {
        /// The name.
        name: String,
        /// Whose it is.
        project: PathBuf,
    },
    /// No session is called so.
    #[error("there is no session `{}`", .0.escape_debug())]
    Unknown(String),
    /// Several are.
    #[error("`{word}` means several sessions: {}", matches.join(", "))]
    Ambiguous {
        /// What was typed.
        word: String,
        /// What it may mean.
        matches: Vec<String>,
    },
    /// Nothing was typed, and no session belongs here.
    #[error("there is no session of `{}`", .0.display())]
    NoneHere(PathBuf),
    /// It exists, but nothing runs.
    #[error("the session `{0}` is not up")]
    NotUp(String),
    /// A backend that this program does not have.
    #[error("this version has no backend `{0}`")]
    NoBackend(BackendKind),
    /// The backend could not do it.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Taking things back failed, too.
    #[error("{first}; and what was made could not all be taken back: {second}")]
    Both {
        /// What went wrong first.
        first: Box<ControlError>,
        /// What went wrong after it.
        second: Box<ControlError>,
    },
    /// A file or directory of ours.
    #[error("cannot {what} `{}`", path.display())]
    File {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The record.
    #[error("the record of sessions `{}` cannot be used", path.display())]
    Store {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// A record of another version.
    #[error("the record of sessions `{}` is of version {found}; this program knows {known}", path.display())]
    Version {
        /// Where it is.
        path: PathBuf,
        /// What it says.
        found: i64,
        /// What we write.
        known: i64,
    },
}

impl ControlError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME` or `XDG_DATA_HOME`".into()),
            Self::Name(_) => Some(
                "use letters, digits, `.`, `_` and `-`, at most 64, the first a letter or digit"
                    .into(),
            ),
            Self::Taken { .. } => Some("pass another `--name`".into()),
            Self::Unknown(_) | Self::NoneHere(_) => {
                Some("`agent-sandbox ps` lists the sessions, `agent-sandbox up` makes one".into())
            }
            Self::Ambiguous { .. } => Some("type more of the name or the id".into()),
            Self::NotUp(name) => Some(format!("start it: agent-sandbox up --name {name}")),
            Self::NoBackend(_) => {
                Some("write `backend = \"bwrap\"` for a session without a container".into())
            }
            Self::Backend(error) => error.hint.clone(),
            Self::Both { first, .. } => first.hint(),
            Self::File { source, path, .. } => full(source, path),
            Self::Store { source, path } => match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) => Some(no_room(path)),
                Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                    Some(
                        "move the file away; what still runs is found by `agent-sandbox prune`"
                            .into(),
                    )
                }
                _ => None,
            },
            Self::Version { .. } => Some("use the version of agent-sandbox that wrote it".into()),
        }
    }

    /// One word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "no_home",
            Self::Name(_) => "invalid_name",
            Self::Taken { .. } => "name_taken",
            Self::Unknown(_) | Self::NoneHere(_) => "not_found",
            Self::Ambiguous { .. } => "ambiguous",
            Self::NotUp(_) => "not_up",
            Self::NoBackend(_) => "no_backend",
            Self::Backend(error) => error.code,
            Self::Both { first, .. } => first.code(),
            Self::File { .. } | Self::Store { .. } | Self::Version { .. } => "storage",
        }
    }

    /// Whether a word was typed that means no session, or more than one.
    pub fn is_typing(&self) -> bool {
        matches!(
            self,
            Self::Name(_) | Self::Unknown(_) | Self::Ambiguous { .. } | Self::NoneHere(_)
        )
    }

    /// The same, after a failure to take things back.
    pub(crate) fn and(self, second: Result<(), Self>) -> Self {
        match second {
            Ok(()) => self,
            Err(second) => Self::Both { first: Box::new(self), second: Box::new(second) },
        }
    }
}

/// What to do where there is no room.
pub(crate) fn full(source: &io::Error, path: &Path) -> Option<String> {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&source.kind()).then(|| no_room(path))
}

fn no_room(path: &Path) -> String {
    let dir = path.parent().unwrap_or(path).display();
    format!("the file system of `{dir}` is full: make room, then type the command again")
}

/// What was being done to a file of ours.
pub(crate) fn cannot(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ControlError {
    move |source| ControlError::File { what, path: path.to_path_buf(), source }
}
