//! Errors of finding, creating or mounting a filesystem by ID.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::FOLDER;
use crate::LayerError;
use crate::store::StoreError;

/// Error of looking up a filesystem or using an overlay.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The word is not an ID.
    #[error("invalid ID `{}`", .0.display())]
    NoId(PathBuf),
    /// No filesystem has the ID.
    #[error("there is no filesystem `{id}` in this directory")]
    Missing {
        /// The ID.
        id: String,
        /// IDs of filesystems that exist.
        known: Vec<String>,
    },
    /// The database does not exist.
    #[error("there is no database `{}`", .0.display())]
    NoFile(PathBuf),
    /// An overlay was requested without a base.
    #[error("the overlay engine needs a base")]
    NoBase,
    /// The ID is in use.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// Only root can mount an overlay on the host.
    #[error("only root can mount an overlay on the host")]
    NotRoot,
    /// The overlay engine does not support an operation.
    #[error("the overlay engine does not support {0}")]
    Cannot(&'static str),
    /// The filesystem was created with another engine.
    #[error("`{}` was created with another engine", .0.display())]
    OtherEngine(PathBuf),
    /// The layer is already mounted.
    #[error("`{}` is already mounted on `{}`", dir.display(), at.display())]
    Mounted {
        /// The layer.
        dir: PathBuf,
        /// Its mountpoint.
        at: PathBuf,
    },
    /// A file system operation failed.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// The operation.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A database could not be recovered from a killed mount.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

impl FolderError {
    pub(super) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}

impl Hint for FolderError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::NoFile(_) => "not_found",
            _ => "refused",
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoId(_) => {
                "an ID consists of letters, digits, `-`, `_` and inner dots; a database path contains a slash or ends in .db"
            }
            Self::Missing { id, known } if known.is_empty() => {
                return Some(format!(
                    "create it with `agent-sandbox fs init {id}`, or change to the directory that has `{FOLDER}/{id}.db`"
                ));
            }
            Self::Missing { known, .. } => return Some(format!("existing: {}", known.join(", "))),
            Self::NoFile(_) => "create one with `agent-sandbox fs init`",
            Self::NoBase => "pass `--base DIR`",
            Self::Exists(_) => "remove it first, or choose another ID",
            Self::NotRoot => {
                "create it with `--engine agentfs`, which any user can mount, or use `agent-sandbox --cow`, which mounts inside the sandbox"
            }
            Self::Cannot(_) => "create it with `--engine agentfs`",
            Self::OtherEngine(_) => "omit `--engine`: `fs init` chose the engine",
            Self::Mounted { .. } => {
                "two mounts would corrupt the layer; unmount the first with `agent-sandbox fs unmount`"
            }
            Self::Io { .. } => "run `agent-sandbox doctor` to see what this machine supports",
            Self::Store(error) => return error.hint(),
            Self::Layer(error) => return error.hint(),
        };
        Some(text.to_owned())
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoId(_) => ExitCode::Usage,
            _ => ExitCode::Setup,
        }
    }
}
