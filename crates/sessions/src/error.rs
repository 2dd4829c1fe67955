//! Errors of session operations.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::plan::PlanError;
use sandbox_launch::layers::LayersError;
use sandbox_layers::session::SessionError;
use sandbox_policy::config::{Changed, Origin};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

/// Error of a session operation.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Neither `HOME` nor `XDG_DATA_HOME` is set.
    #[error("cannot find a home directory for sessions")]
    NoHome,
    /// The text is not a valid session name.
    #[error("invalid session name `{}`", .0.escape_debug())]
    Name(String),
    /// The name belongs to a session of another project.
    #[error("session name `{name}` is already used in project `{}`", project.display())]
    Taken {
        /// The name.
        name: String,
        /// The project of the session that has it.
        project: PathBuf,
    },
    /// No session has this name or id.
    #[error("there is no session `{}`", .0.escape_debug())]
    Unknown(String),
    /// Several sessions match.
    #[error("`{word}` matches several sessions: {}", matches.join(", "))]
    Ambiguous {
        /// The argument.
        word: String,
        /// The sessions that match.
        matches: Vec<String>,
    },
    /// No session was named, and the directory has several.
    #[error("`{}` has several sessions: {}", directory.display(), matches.join(", "))]
    SeveralHere {
        /// The directory.
        directory: PathBuf,
        /// Its sessions.
        matches: Vec<String>,
    },
    /// The session is up with different settings.
    #[error("session `{name}` is up with different settings{}", listed(lines))]
    Differs {
        /// The session.
        name: String,
        /// A line for each setting that differs.
        lines: Vec<String>,
    },
    /// No session was named, and the directory has none.
    #[error("there is no session for `{}`", .0.display())]
    NoneHere(PathBuf),
    /// The session exists, but is not up.
    #[error("session `{0}` is not up")]
    NotUp(String),
    /// The session is a layer of single commands, which `up` never started.
    #[error("session `{0}` was never up: it belongs to commands that ran with `--session`")]
    OnlyLayer(String),
    /// The backend is not part of this build.
    #[error("backend `{0}` is not available: this build lacks the feature `{0}`")]
    NoBackend(&'static str),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The layer failed.
    #[error(transparent)]
    Layer(#[from] SessionError),
    /// The local backend does not support the configuration.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The configuration cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The copy-on-write layer cannot be opened.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// A session with a layer was requested without one.
    #[error("cannot bring up session `{name}` without its copy-on-write layer (changes: {work})")]
    KeepsChanges {
        /// The session.
        name: String,
        /// Summary of its changes.
        work: String,
    },
    /// The working directory does not exist.
    #[error("cannot use working directory `{}`: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The path is not UTF-8.
    #[error("path `{}` is not valid UTF-8", .0.display())]
    NotText(PathBuf),
    /// The request of a session cannot be encoded or decoded.
    #[error(transparent)]
    Request(#[from] serde_json::Error),
    /// The recorded request of a session cannot be decoded.
    #[error("{error}")]
    Recorded {
        /// The session.
        name: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// An operation failed, and so did its clean-up.
    #[error("{first}; clean-up also failed: {second}")]
    Both {
        /// The error.
        first: Box<ControlError>,
        /// The error of the clean-up.
        second: Box<ControlError>,
    },
    /// A file operation failed.
    #[error("cannot {what} `{}`", path.display())]
    File {
        /// The verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The database failed.
    #[error("cannot use the session database `{}`", path.display())]
    Store {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The database has another schema version.
    #[error("session database `{}` has version {found}; this program supports version {known}", path.display())]
    Version {
        /// Its path.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
}

impl ControlError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "no_home",
            Self::Name(_) => "invalid_name",
            Self::Taken { .. } => "name_taken",
            Self::Unknown(_)
            | Self::NoneHere(_)
            | Self::OnlyLayer(_)
            | Self::Layer(SessionError::Unknown(_) | SessionError::None(_)) => "not_found",
            Self::Ambiguous { .. } | Self::SeveralHere { .. } => "ambiguous",
            Self::Differs { .. } => "differs",
            Self::NotUp(_) => "not_up",
            Self::NoBackend(_) => "no_backend",
            Self::Backend(error) => error.code,
            Self::Shape(_) | Self::Plan(_) => "refused",
            Self::KeepsChanges { .. } => "unapplied",
            Self::Directory { .. } | Self::NotText(_) => "invalid",
            Self::Both { first, .. } => first.code(),
            Self::Layer(_)
            | Self::Layers(_)
            | Self::File { .. }
            | Self::Store { .. }
            | Self::Version { .. }
            | Self::Request(_)
            | Self::Recorded { .. } => "storage",
        }
    }

    /// Adds the error of a clean-up, if that failed too.
    pub(crate) fn and(self, second: Result<(), Self>) -> Self {
        match second {
            Ok(()) => self,
            Err(second) => Self::Both { first: Box::new(self), second: Box::new(second) },
        }
    }
}

impl Hint for ControlError {
    fn code(&self) -> &'static str {
        Self::code(self)
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME` or `XDG_DATA_HOME`".into()),
            Self::Name(_) => Some(
                "use at most 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
                    .into(),
            ),
            Self::Taken { .. } => Some("pass a different `--name`".into()),
            Self::Unknown(_) | Self::NoneHere(_) => {
                Some("`agent-sandbox ps` lists sessions, `agent-sandbox up` creates one".into())
            }
            Self::Ambiguous { .. } => Some("type more of the name or the id".into()),
            Self::SeveralHere { .. } => Some("name one of them".into()),
            Self::Differs { .. } => Some(
                "nothing was changed; pass `--recreate` to end its processes and bring it up with the new settings"
                    .into(),
            ),
            Self::OnlyLayer(name) => Some(format!(
                "`agent-sandbox history -s {name}` shows its log, `agent-sandbox diff -s {name}` its changes"
            )),
            Self::NotUp(name) => Some(format!("start it: agent-sandbox up --name {name}")),
            Self::NoBackend(name) => Some(format!(
                "build with `--features {name}`, or write `backend = \"bwrap\"` for a session without a container"
            )),
            Self::Backend(error) => error.hint.clone(),
            Self::Layer(error) => error.hint(),
            Self::Shape(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Layers(error) => error.hint(),
            Self::KeepsChanges { name, .. } => Some(format!(
                "apply or discard the changes, then remove the session: agent-sandbox rm {name}; or bring it up with them: agent-sandbox --cow up --name {name}"
            )),
            Self::Directory { .. } => Some("pass a different `--cwd`".into()),
            Self::NotText(_) => Some("rename it, or pass a different path".into()),
            Self::Request(_) => None,
            Self::Recorded { name, .. } => {
                Some(format!("bring it up again: agent-sandbox up --name {name}"))
            }
            Self::Both { first, .. } => first.hint(),
            Self::File { source, path, .. } => full(source, path),
            Self::Store { source, path } => match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) => Some(no_room(path)),
                Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                    Some(
                        "move the file away, then remove leftovers with `agent-sandbox prune`"
                            .into(),
                    )
                }
                _ => None,
            },
            Self::Version { .. } => Some("use the agent-sandbox version that wrote it".into()),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Name(_)
            | Self::Unknown(_)
            | Self::Ambiguous { .. }
            | Self::SeveralHere { .. }
            | Self::NoneHere(_)
            | Self::OnlyLayer(_) => ExitCode::Usage,
            Self::Layer(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}

/// Formats settings that differ, one per line.
fn listed(lines: &[String]) -> String {
    if lines.is_empty() {
        return ", or was brought up by another version of agent-sandbox".into();
    }
    lines.iter().fold(":".into(), |text, line| format!("{text}\n  {line}"))
}

/// Returns the hint for an error of a full file system.
pub(crate) fn full(source: &io::Error, path: &Path) -> Option<String> {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&source.kind()).then(|| no_room(path))
}

fn no_room(path: &Path) -> String {
    let dir = path.parent().unwrap_or(path).display();
    format!("the file system of `{dir}` is full: free some space, then run the command again")
}

/// Returns a converter from I/O errors to [`ControlError::File`].
pub(crate) fn cannot(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ControlError {
    move |source| ControlError::File { what, path: path.to_path_buf(), source }
}

/// Error of a backend.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct BackendError {
    /// Stable error code.
    pub code: &'static str,
    /// Message for the user.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
    /// Cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BackendError {
    /// Creates an error with a cause.
    pub fn new(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: Some(source.into()) }
    }

    /// Creates an error of a file operation. A full file system gets its own code and hint.
    pub(crate) fn file(
        message: impl Into<String>,
        path: &std::path::Path,
        error: io::Error,
    ) -> Self {
        let hint = full(&error, path);
        let code = if hint.is_some() { "storage" } else { "backend" };
        Self { code, hint, ..Self::new(message, error) }
    }

    /// Creates an error without a cause.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the stable error code.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn unsupported(kind: &str, what: &str) -> Self {
        Self::plain(format!("backend `{kind}` cannot {what}")).code("unsupported")
    }
}

/// Error of a configuration that the local backend does not support.
#[derive(Debug, Error)]
pub enum ShapeError {
    /// The backend does not support a key.
    #[error("{origin}: backend `bwrap` does not support `{key}`: {why}")]
    Refused {
        /// The key.
        key: String,
        /// Where it is set.
        origin: Origin,
        /// The reason.
        why: &'static str,
    },
    /// A file of environment variables cannot be read.
    #[error("{origin}: cannot read variables from `{}`", path.display())]
    EnvFile {
        /// Where it is set.
        origin: Origin,
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl Hint for ShapeError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Refused { .. } => "remove the key, or set `backend = \"docker\"`",
            Self::EnvFile { source, .. } if Changed::is_in(source) => Changed::HINT,
            Self::EnvFile { .. } => "each line must have the form NAME=VALUE",
        };
        Some(text.to_owned())
    }
}
