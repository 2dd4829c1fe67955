//! Sessions on disk, so that a restart of the proxy loses none. Only hashes of tokens and references
//! to secrets are written.

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

/// A session as it is written.
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

/// Why sessions cannot be kept.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Cannot be read.
    #[error("cannot read the sessions in `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Is not what we wrote.
    #[error("the sessions in `{}` make no sense", .0.display())]
    Content(PathBuf, #[source] serde_json::Error),
    /// Comes from another version.
    #[error("the sessions in `{}` are of version {found}, and this proxy knows {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Cannot be written.
    #[error("cannot write the sessions to `{}`", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read(..) | Self::Write(..) => {
                "look at the owner and the mode of that directory".into()
            }
            Self::Content(path, _) | Self::Version { path, .. } => {
                format!("move `{}` away; sandboxes that run register again", path.display())
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

/// What a file holds, if it is there.
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
