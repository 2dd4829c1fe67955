//! Which database a word means.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox_layers::database::{Database, settle};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::overlay;
use crate::failed::Failed;

/// Where databases that go by an ID lie, below the current directory.
pub(crate) const FOLDER: &str = sandbox_protocol::layout::LAYERS_DIR;

/// A word that means no database.
#[derive(Debug, Error)]
pub(crate) enum TargetError {
    #[error("`{}` is no ID", .0.display())]
    NoId(PathBuf),
    #[error("there is no filesystem `{id}` here")]
    Missing { id: String, known: Vec<String> },
    #[error("there is no database `{}`", .0.display())]
    NoFile(PathBuf),
}

impl Hint for TargetError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoId(_) => "an ID has letters, digits, `-`, `_` and dots inside; a path of a database has a slash or ends in .db".into(),
            Self::Missing { id, known } if known.is_empty() => {
                format!("make it with `agent-sandbox fs init {id}`, or go where `{FOLDER}/{id}.db` is")
            }
            Self::Missing { known, .. } => format!("here are: {}", known.join(", ")),
            Self::NoFile(_) => "make one with `agent-sandbox fs init`".into(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoId(_) => ExitCode::Usage,
            Self::Missing { .. } | Self::NoFile(_) => ExitCode::Setup,
        }
    }
}

/// Whether a word can be an ID: what AgentFS takes, so that a name is never a path, and nothing that
/// looks like a flag. Dots inside are ours, for sessions that are named by somebody else.
pub(crate) fn is_id(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !bytes.is_empty()
        && bytes.len() <= 128
        && !bytes.starts_with(b"-")
        && !bytes.starts_with(b".")
        && bytes.iter().all(plain)
}

/// Where the database that a word means is, or would be.
pub(crate) fn place(word: &OsStr, here: &Path) -> Result<PathBuf, Failed> {
    let mut name = word.to_owned();
    name.push(".db");
    let named = here.join(FOLDER).join(name);
    if is_path(word) && !(is_id(word) && named.is_file()) {
        return Ok(here.join(word));
    }
    if !is_id(word) {
        return Err(TargetError::NoId(word.into()).into());
    }
    Ok(named)
}

/// An ID may end like a file, too: then it is one only where a database goes by it.
fn is_path(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    bytes.contains(&b'/') || (bytes.ends_with(b".db") && bytes.len() > 3)
}

/// The database that a word means, which must be there.
pub(crate) fn existing(word: &OsStr, here: &Path) -> Result<PathBuf, Failed> {
    let path = place(word, here)?;
    if path.is_file() {
        return Ok(path);
    }
    // The tool `agentfs` takes any name of a file.
    let plain = here.join(word);
    if plain.is_file() {
        return Ok(plain);
    }
    if overlay::find(word, here)?.is_some() {
        let what = "this: its files lie plain in `upper`, and a mount shows the whole";
        return Err(overlay::OverlayError::Cannot(what).into());
    }
    if !is_path(word) && is_id(word) {
        let id = word.to_string_lossy().into_owned();
        return Err(TargetError::Missing { id, known: known(here) }.into());
    }
    Err(TargetError::NoFile(path).into())
}

/// The database that a word means, open for reading.
pub(crate) fn open(word: &OsStr, here: &Path) -> Result<Database, Failed> {
    let path = existing(word, here)?;
    settle(&path)?;
    Ok(Database::open(&path)?)
}

fn known(here: &Path) -> Vec<String> {
    let found = std::fs::read_dir(here.join(FOLDER)).into_iter().flatten().flatten();
    let names = found.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".db").filter(|id| is_id(OsStr::new(id))).map(str::to_owned)
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.truncate(10);
    names
}
