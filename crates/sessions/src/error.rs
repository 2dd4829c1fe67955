//! Why something could not be done to a session.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::plan::PlanError;
use sandbox_launch::layers::LayersError;
use sandbox_policy::config::{Changed, Origin};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

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
    /// Nothing was typed, and several sessions belong here.
    #[error("`{}` has several sessions: {}", directory.display(), matches.join(", "))]
    SeveralHere {
        /// Where.
        directory: PathBuf,
        /// All of them.
        matches: Vec<String>,
    },
    /// It is up, and not as it is asked for.
    #[error("the session `{name}` is up with other settings{}", listed(lines))]
    Differs {
        /// The session.
        name: String,
        /// A line for each setting that differs.
        lines: Vec<String>,
    },
    /// Nothing was typed, and no session belongs here.
    #[error("there is no session of `{}`", .0.display())]
    NoneHere(PathBuf),
    /// It exists, but nothing runs.
    #[error("the session `{0}` is not up")]
    NotUp(String),
    /// A backend that this program does not have.
    #[error("`backend` needs the feature `{0}`, which this build leaves out")]
    NoBackend(&'static str),
    /// The backend could not do it.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The layer could not be used.
    #[error(transparent)]
    Layer(#[from] sandbox_layers::session::SessionError),
    /// The configuration asks for what the local backend cannot do.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The configuration cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Changes cannot be kept apart.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// A session whose changes are in a layer, asked for without one.
    #[error(
        "the session `{name}` keeps its changes apart ({work}), and would write into the project without them"
    )]
    KeepsChanges {
        /// The session.
        name: String,
        /// Its work.
        work: String,
    },
    /// A directory to work in that does not exist.
    #[error("cannot work in `{}`: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A path that the record cannot hold.
    #[error("`{}` is no text, and cannot be put on record", .0.display())]
    NotText(PathBuf),
    /// The request of a session cannot be read or written.
    #[error(transparent)]
    Request(#[from] serde_json::Error),
    /// The request that a session was brought up by cannot be read.
    #[error("{error}")]
    Recorded {
        /// The session.
        name: String,
        /// The reason.
        error: serde_json::Error,
    },
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
    /// One word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "no_home",
            Self::Name(_) => "invalid_name",
            Self::Taken { .. } => "name_taken",
            Self::Unknown(_) | Self::NoneHere(_) => "not_found",
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

    /// The same, after a failure to take things back.
    pub(crate) fn and(self, second: Result<(), Self>) -> Self {
        match second {
            Ok(()) => self,
            Err(second) => Self::Both { first: Box::new(self), second: Box::new(second) },
        }
    }
}

impl Hint for ControlError {
    fn hint(&self) -> Option<String> {
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
            Self::SeveralHere { .. } => Some("name one of them".into()),
            Self::Differs { .. } => Some(
                "nothing was changed; pass `--recreate` to end its processes and bring it up with the new settings"
                    .into(),
            ),
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
            Self::Directory { .. } => Some("pass another `--cwd`".into()),
            Self::NotText(_) => Some("give the directory another name".into()),
            Self::Request(_) => None,
            Self::Recorded { name, .. } => {
                Some(format!("bring it up anew: agent-sandbox up --name {name}"))
            }
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

    fn exit_code(&self) -> ExitCode {
        match self {
            // A word was typed that means no session, or more than one.
            Self::Name(_)
            | Self::Unknown(_)
            | Self::Ambiguous { .. }
            | Self::SeveralHere { .. }
            | Self::NoneHere(_) => ExitCode::Usage,
            Self::Layer(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}

/// Settings that differ, one below the other.
fn listed(lines: &[String]) -> String {
    if lines.is_empty() {
        return ", or by another version of agent-sandbox".into();
    }
    lines.iter().fold(":".into(), |text, line| format!("{text}\n  {line}"))
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

/// A backend that could not do what was asked.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct BackendError {
    /// One word for programs.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Why.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BackendError {
    /// Something failed.
    pub fn new(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: Some(source.into()) }
    }

    /// A file of ours could not be made or changed.
    pub(crate) fn file(
        message: impl Into<String>,
        path: &std::path::Path,
        error: io::Error,
    ) -> Self {
        let hint = full(&error, path);
        let code = if hint.is_some() { "storage" } else { "backend" };
        Self { code, hint, ..Self::new(message, error) }
    }

    /// Something is not as it must be.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { code: "backend", message: message.into(), hint: None, source: None }
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a word for programs.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn unsupported(kind: &str, what: &str) -> Self {
        Self::plain(format!("the backend `{kind}` cannot {what}")).code("unsupported")
    }
}

/// Why a configuration cannot be carried out here.
#[derive(Debug, Error)]
pub enum ShapeError {
    /// Nothing here can do that.
    #[error("{origin}: the backend `bwrap` cannot carry `{key}` out: {why}")]
    Refused {
        /// The key.
        key: String,
        /// Where it is written.
        origin: Origin,
        /// Why.
        why: &'static str,
    },
    /// A file of variables that cannot be used.
    #[error("{origin}: cannot use the variables of `{}`", path.display())]
    EnvFile {
        /// Where it is named.
        origin: Origin,
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Hint for ShapeError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Refused { .. } => "leave the key out, or write `backend = \"docker\"`",
            Self::EnvFile { source, .. } if Changed::is_in(source) => Changed::HINT,
            Self::EnvFile { .. } => "write lines of the form NAME=VALUE",
        };
        Some(text.to_owned())
    }
}
