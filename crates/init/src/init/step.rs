//! Outcome and errors of a step of the set-up.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::Hint;
use thiserror::Error;

use super::supervisor::{Ending, Interrupted};
use crate::identity::IdentityError;
use crate::log::shown;

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// An earlier start did it.
    Already,
    /// Nothing to do, for this reason.
    Skipped(&'static str),
}

/// Failure of a step.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error("cannot {what} `{}`", shown(path))]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file, a directory nor a link", shown(.0))]
    Special(PathBuf),
    #[error("`{}` is not a directory", shown(.0))]
    NoDirectory(PathBuf),
    #[error("{0}")]
    Said(String, Option<String>),
    #[error("cannot find the program `{0}`")]
    NoProgram(&'static str),
    #[error("`{0}` {1}")]
    Failed(&'static str, String),
    #[error("`{0}` took too long")]
    Late(&'static str),
    #[error("the session's changes are in `{}`, which {wanted} cannot open", shown(path))]
    OtherEngine { path: PathBuf, wanted: &'static str },
    #[error(transparent)]
    Credentials(#[from] IdentityError),
    #[error("stopped by signal {0}")]
    Asked(i32),
    #[error("a system call failed")]
    System(#[from] io::Error),
}

impl Hint for StepError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "mount a writable volume there".into()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "root in a container may lack the capabilities CHOWN, DAC_OVERRIDE, FOWNER or SYS_ADMIN".into()
            }
            Self::Special(_) => "remove it from the image's home directory".into(),
            Self::NoDirectory(_) => "remove it; the next start creates it again".into(),
            Self::Said(_, hint) => return hint.clone(),
            Self::NoProgram("git") => "install git in the image, or unset WORKSPACE_PATH".into(),
            Self::NoProgram("dockerd") => {
                "install Docker in the image, or set AGENT_DOCKERD=auto".into()
            }
            Self::NoProgram(_) => {
                "put it beside this program or on PATH, or set AGENT_COW=none".into()
            }
            Self::Failed("git", _) => {
                "see git's output above; credentials come from a credential helper of the image".into()
            }
            Self::Failed(..) => {
                "see its output above; `agent-sandbox-init check` finds common causes, and AGENT_COW selects another engine".into()
            }
            Self::OtherEngine { .. } => "restore the previous AGENT_COW, or use another SESSION_ID".into(),
            Self::Credentials(error) => return error.hint(),
            Self::File { .. } | Self::Late(_) | Self::Asked(_) | Self::System(_) => return None,
        })
    }
}

/// Returns a conversion of errors that adds the path and the action.
pub(crate) fn file<E: Into<io::Error>>(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> StepError {
    let path = path.to_owned();
    move |error| StepError::File { what, path, source: error.into() }
}

/// Returns an error unless a program exited with code 0.
pub(crate) fn succeeded(
    name: &'static str,
    ended: Result<Ending, Interrupted>,
) -> Result<(), StepError> {
    match ended {
        Ok(Ending::Code(0)) => Ok(()),
        Ok(Ending::Code(code)) => Err(StepError::Failed(name, format!("exited with code {code}"))),
        Ok(Ending::Signal(signal)) => {
            Err(StepError::Failed(name, format!("was killed by signal {signal}")))
        }
        Err(Interrupted::Late) => Err(StepError::Late(name)),
        Err(Interrupted::Signal(signal)) => Err(StepError::Asked(signal)),
    }
}
