//! Errors of loading a configuration.

use std::io;
use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::digest::Digest;
use super::file::{FileError, Invalid};
use super::layer::Origin;
use super::widening::Widening;
use crate::text::shown;

/// Failure to load a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// The value of a flag is invalid.
    #[error("`{flag}`: {problem}")]
    Flag {
        /// The flag, as typed.
        flag: String,
        /// The problem.
        problem: Invalid,
    },
    /// A file cannot be read.
    #[error("cannot read the configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A device, pipe or socket has the name of a configuration.
    #[error("the configuration `{}` is not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A directory has several configuration files.
    #[error("found more than one configuration file: {}", quoted(paths))]
    Several {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// The working directory cannot be used.
    #[error("cannot use `{}` as the working directory", path.display())]
    Cwd {
        /// The directory, as requested.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The caller's working directory was removed.
    #[error("the working directory no longer exists")]
    CwdGone,
    /// Two secrets use the same variable.
    #[error(
        "`secrets.{}` ({}) and `secrets.{}` ({}) both use the variable {}",
        secrets[0].0, secrets[0].1, secrets[1].0, secrets[1].1, shown(variable)
    )]
    SharedVariable {
        /// The variable.
        variable: String,
        /// Both secrets, by name and origin.
        secrets: Box<[(String, Origin); 2]>,
    },
    /// A directory above the working directory has a configuration of another user.
    #[error("the configuration `{}` belongs to another user, or is in another user's directory", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// `--repo` outside a repository.
    #[error("`{}` is not in a git repository", cwd.display())]
    NoRepository {
        /// The working directory.
        cwd: PathBuf,
    },
    /// The repository of the working directory cannot become writable.
    #[error("cannot make the repository `{}` writable: {why}", root.display())]
    Repository {
        /// Its root.
        root: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A project's file widens the policy, and the user does not trust it.
    #[error("the project's `{}` is not trusted, and widens the sandbox:{}", file.display(), lines(widenings))]
    Untrusted {
        /// The file.
        file: PathBuf,
        /// The hash of the bytes that were read.
        digest: Digest,
        /// The widenings.
        widenings: Vec<Widening>,
        /// True for the project's only file, if it is in the working directory.
        alone: bool,
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
            Self::CwdGone => Some("change to an existing directory, or pass `--cwd`".to_owned()),
            Self::Untrusted { file, alone, .. } => {
                let file = if *alone { String::new() } else { format!(" {}", file.display()) };
                Some(format!(
                    "read it, then allow it with `agent-sandbox trust{file}`; for one run with `--trust` or `AGENT_SANDBOX_TRUST=1`"
                ))
            }
            Self::Foreign { path } => Some(format!(
                "read it; to apply it in place of all files of the project: `--config {}`",
                path.display()
            )),
            Self::NoRepository { .. } => {
                Some("remove `--repo`, or change to a directory of a repository".to_owned())
            }
            Self::Repository { .. } => {
                Some("name the directories to make writable: `--rw DIR`".to_owned())
            }
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
