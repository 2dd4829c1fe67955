//! What stops a configuration from being loaded.

use std::io;
use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::digest::Digest;
use super::file::{FileError, Invalid};
use super::layer::Origin;
use super::widening::Widening;
use crate::text::shown;

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// A flag's value is wrong.
    #[error("`{flag}`: {problem}")]
    Flag {
        /// The flag, as it was typed.
        flag: String,
        /// What is wrong with it.
        problem: Invalid,
    },
    /// A file cannot be read.
    #[error("cannot read the configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device, a pipe or a socket by a configuration's name.
    #[error("the configuration `{}` is no regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// Several files in one place.
    #[error("several configurations in one place: {}", quoted(paths))]
    Several {
        /// All of them.
        paths: Vec<PathBuf>,
    },
    /// The working directory cannot be used.
    #[error("cannot use `{}` as the working directory", path.display())]
    Cwd {
        /// The directory, as it was asked for.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The caller's working directory is gone.
    #[error("the working directory does not exist any more")]
    CwdGone,
    /// Two secrets would overwrite each other.
    #[error(
        "`secrets.{}` ({}) and `secrets.{}` ({}) use one variable, {}",
        secrets[0].0, secrets[0].1, secrets[1].0, secrets[1].1, shown(variable)
    )]
    SharedVariable {
        /// The variable.
        variable: String,
        /// Both secrets, by name and origin.
        secrets: Box<[(String, Origin); 2]>,
    },
    /// A project's file wants more than the user allowed.
    #[error("the project's `{}` is not trusted, and widens the sandbox:{}", file.display(), lines(widenings))]
    Untrusted {
        /// The file.
        file: PathBuf,
        /// The hash of the bytes that were read.
        digest: Digest,
        /// What it wants.
        widenings: Vec<Widening>,
    },
}

impl Hint for ConfigError {
    fn code(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "untrusted",
            _ => "refused",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::File(error) => error.hint(),
            Self::Flag { problem, .. } => problem.hint.clone(),
            Self::Several { .. } | Self::SharedVariable { .. } => {
                Some("keep one of them".to_owned())
            }
            Self::CwdGone => Some("change to a directory that exists, or pass `--cwd`".to_owned()),
            Self::Untrusted { .. } => Some(
                "read it, then allow it with `agent-sandbox trust`; for one run with `--trust` or `AGENT_SANDBOX_TRUST=1`"
                    .to_owned(),
            ),
            Self::Read { .. } | Self::NotRegular { .. } | Self::Cwd { .. } => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Flag { .. } => ExitCode::Usage,
            _ => ExitCode::Setup,
        }
    }
}

fn quoted(paths: &[PathBuf]) -> String {
    let quoted: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    quoted.join(", ")
}

fn lines(widenings: &[Widening]) -> String {
    let lines = widenings.iter().map(ToString::to_string);
    lines.flat_map(|line| ["\n  ".to_owned(), line]).collect()
}
