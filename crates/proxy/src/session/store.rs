//! File of saved sessions, which survive a restart of the proxy. It contains hashes of tokens and references to
//! secrets.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{Durability, Replace};
use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Counts;
use super::ending::Ending;
use super::registration::Terms;
use crate::token::TokenHash;

const VERSION: u32 = 1;

/// A saved session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub token_sha256: TokenHash,
    #[serde(default)]
    pub bound: bool,
    pub terms: Terms,
    #[serde(default)]
    pub usage: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    sessions: Vec<Stored>,
}

/// Failure to load or save sessions.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file cannot be read.
    #[error("cannot read the sessions in `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file is not valid.
    #[error("invalid session file `{}`", .0.display())]
    Content(PathBuf, #[source] serde_json::Error),
    /// The file has another version.
    #[error("unsupported version {found} of the session file `{}`; this proxy supports {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file cannot be written.
    #[error("cannot write the sessions to `{}`", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read(..) | Self::Write(..) => "check the owner and mode of the directory".into(),
            Self::Content(path, _) | Self::Version { path, .. } => {
                format!("move `{}` away; running sandboxes register again", path.display())
            }
        })
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<Stored>, StoreError> {
    let Some(text) = read_file(path)? else { return Ok(Vec::new()) };
    let file: File = serde_json::from_slice(&text)
        .map_err(|error| StoreError::Content(path.to_owned(), error))?;
    if file.version != VERSION {
        return Err(StoreError::Version { path: path.to_owned(), found: file.version });
    }
    Ok(file.sessions)
}

/// Returns the content of a file, or `None` if it does not exist.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Read(path.to_owned(), error)),
    }
}

pub(super) fn write(path: &Path, sessions: &[Stored]) -> Result<(), StoreError> {
    let failed = |error| StoreError::Write(path.to_owned(), error);
    let file = File { version: VERSION, sessions: sessions.to_vec() };
    let text = serde_json::to_vec_pretty(&file).map_err(|error| failed(error.into()))?;
    Replace::private(Durability::Content).write(path, &text).map_err(failed)
}
