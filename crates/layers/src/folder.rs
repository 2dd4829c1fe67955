//! Filesystems named by an ID, in the directory `.agentfs`. `ID.db` is a database; `ID.overlay`
//! holds the layer of a kernel overlay mount.

mod error;
mod overlay;
mod unmount;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use error::FolderError;
pub use overlay::OverlayDir;
pub use unmount::{UnmountError, names, unmount};

use crate::database::{Database, settle};

/// Name of the directory.
pub const FOLDER: &str = sandbox_protocol::layout::LAYERS_DIR;

/// Returns true for a valid ID. Like the IDs of AgentFS, they cannot be taken for a path or a flag.
/// Dots inside are our extension, for sessions named elsewhere.
pub fn is_id(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !bytes.is_empty()
        && bytes.len() <= 128
        && !bytes.starts_with(b"-")
        && !bytes.starts_with(b".")
        && bytes.iter().all(plain)
}

/// Returns the path of the database that a word refers to, which need not exist.
pub fn place(word: &OsStr, here: &Path) -> Result<PathBuf, FolderError> {
    let mut name = word.to_owned();
    name.push(".db");
    let named = here.join(FOLDER).join(name);
    if is_path(word) && !(is_id(word) && named.is_file()) {
        return Ok(here.join(word));
    }
    if !is_id(word) {
        return Err(FolderError::NoId(word.into()));
    }
    Ok(named)
}

/// Returns true when a word looks like a path. An ID may also end in `.db`, if such a database
/// exists.
fn is_path(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    bytes.contains(&b'/') || (bytes.ends_with(b".db") && bytes.len() > 3)
}

/// Returns the path of the existing database that a word refers to.
pub fn existing(word: &OsStr, here: &Path) -> Result<PathBuf, FolderError> {
    let path = place(word, here)?;
    if path.is_file() {
        return Ok(path);
    }
    // The tool `agentfs` accepts any file name.
    let plain = here.join(word);
    if plain.is_file() {
        return Ok(plain);
    }
    if OverlayDir::find(word, here)?.is_some() {
        let what = "this: the changed files are in `upper`, and a mount shows the merged tree";
        return Err(FolderError::Cannot(what));
    }
    if !is_path(word) && is_id(word) {
        let id = word.to_string_lossy().into_owned();
        return Err(FolderError::Missing { id, known: known(here) });
    }
    Err(FolderError::NoFile(path))
}

/// Opens the database that a word refers to, for reading.
pub fn open(word: &OsStr, here: &Path) -> Result<Database, FolderError> {
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
