//! Failures to find, make or mount a filesystem that goes by an ID.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::FOLDER;
use crate::LayerError;
use crate::store::StoreError;

/// A word that means no filesystem, or an overlay that cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The word is not an ID.
    #[error("`{}` is no ID", .0.display())]
    NoId(PathBuf),
    /// No filesystem has this ID.
    #[error("there is no filesystem `{id}` here")]
    Missing {
        /// The ID.
        id: String,
        /// IDs of filesystems that exist.
        known: Vec<String>,
    },
    /// The database does not exist.
    #[error("there is no database `{}`", .0.display())]
    NoFile(PathBuf),
    /// An overlay without a base.
    #[error("an overlay needs something to lie on")]
    NoBase,
    /// The ID is taken.
    #[error("`{}` is there already", .0.display())]
    Exists(PathBuf),
    /// An ordinary user cannot mount an overlay on the host.
    #[error("the kernel lets only root mount an overlay where everybody sees it")]
    NotRoot,
    /// The overlay engine lacks something.
    #[error("the overlay engine does not do {0}")]
    Cannot(&'static str),
    /// The other engine keeps the filesystem.
    #[error("`{}` is kept by the other engine", .0.display())]
    OtherEngine(PathBuf),
    /// The layer is mounted already.
    #[error("`{}` is already mounted on `{}`", dir.display(), at.display())]
    Mounted {
        /// The layer.
        dir: PathBuf,
        /// Its mountpoint.
        at: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// The operation.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A killed mount of the database cannot be brought to rest.
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
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoId(_) => {
                "an ID has letters, digits, `-`, `_` and dots inside; a path of a database has a slash or ends in .db"
            }
            Self::Missing { id, known } if known.is_empty() => {
                return Some(format!(
                    "make it with `agent-sandbox fs init {id}`, or go where `{FOLDER}/{id}.db` is"
                ));
            }
            Self::Missing { known, .. } => return Some(format!("here are: {}", known.join(", "))),
            Self::NoFile(_) => "make one with `agent-sandbox fs init`",
            Self::NoBase => "name it with `--base DIR`",
            Self::Exists(_) => "remove it yourself, or choose another ID",
            Self::NotRoot => {
                "make it with `--engine agentfs`, which every user can mount; or `agent-sandbox --cow`, whose overlay is the sandbox's own"
            }
            Self::Cannot(_) => "make it with `--engine agentfs`",
            Self::OtherEngine(_) => "leave `--engine` out: the engine is chosen by `fs init`",
            Self::Mounted { .. } => {
                "two mounts of one layer spoil it: unmount the first, `agent-sandbox fs unmount`"
            }
            Self::Io { .. } => "`agent-sandbox doctor` says what this machine offers",
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
