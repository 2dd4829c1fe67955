//! One step of the set-up: what it came to, and how it fails.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::Hint;
use thiserror::Error;

use super::supervisor::{Ending, Interrupted};
use crate::identity::IdentityError;
use crate::log::shown;

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// An earlier start has done it.
    Already,
    /// There is nothing to do, for this reason.
    Skipped(&'static str),
}

/// Why a step failed.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error("cannot {what} `{}`", shown(path))]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file, a directory nor a link", shown(.0))]
    Special(PathBuf),
    #[error("`{}` is no directory", shown(.0))]
    NoDirectory(PathBuf),
    #[error("{0}")]
    Said(String, Option<String>),
    #[error("`{0}` is not found")]
    NoProgram(&'static str),
    #[error("`{0}` {1}")]
    Failed(&'static str, String),
    #[error("`{0}` took too long")]
    Late(&'static str),
    #[error("the session's changes are kept by `{}`, which {wanted} does not open", shown(path))]
    OtherEngine { path: PathBuf, wanted: &'static str },
    #[error(transparent)]
    Credentials(#[from] IdentityError),
    #[error("signal {0} asked for the end")]
    Asked(i32),
    #[error("the kernel refuses")]
    System(#[from] io::Error),
}

impl Hint for StepError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "mount a volume there that can be written to".into()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "root in a container may lack the capabilities CHOWN, DAC_OVERRIDE, FOWNER or SYS_ADMIN".into()
            }
            Self::Special(_) => "take it out of the image's home".into(),
            Self::NoDirectory(_) => "remove it; the next start makes it anew".into(),
            Self::Said(_, hint) => return hint.clone(),
            Self::NoProgram("git") => "install git in the image, or leave WORKSPACE_PATH out".into(),
            Self::NoProgram("dockerd") => {
                "install Docker in the image, or set AGENT_DOCKERD=auto".into()
            }
            Self::NoProgram(_) => {
                "put it beside this program or on PATH, or set AGENT_COW=none".into()
            }
            Self::Failed("git", _) => {
                "git says why above; credentials come from a credential helper of the image".into()
            }
            Self::Failed(..) => {
                "it says why above; `agent-sandbox-init check` looks for the cause, AGENT_COW chooses another way".into()
            }
            Self::OtherEngine { .. } => "set AGENT_COW as it was, or choose another SESSION_ID".into(),
            Self::Credentials(error) => return error.hint(),
            Self::File { .. } | Self::Late(_) | Self::Asked(_) | Self::System(_) => return None,
        })
    }
}

/// Names the file that a call failed for.
pub(crate) fn file<E: Into<io::Error>>(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> StepError {
    let path = path.to_owned();
    move |error| StepError::File { what, path, source: error.into() }
}

/// Whether a program did its work.
pub(crate) fn succeeded(
    name: &'static str,
    ended: Result<Ending, Interrupted>,
) -> Result<(), StepError> {
    match ended {
        Ok(Ending::Code(0)) => Ok(()),
        Ok(Ending::Code(code)) => Err(StepError::Failed(name, format!("ended with code {code}"))),
        Ok(Ending::Signal(signal)) => {
            Err(StepError::Failed(name, format!("was killed by signal {signal}")))
        }
        Err(Interrupted::Late) => Err(StepError::Late(name)),
        Err(Interrupted::Signal(signal)) => Err(StepError::Asked(signal)),
    }
}
