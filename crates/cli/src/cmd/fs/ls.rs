//! `fs ls` and `fs cat`: read a filesystem without mounting it.

use std::io;
use std::path::Path;

use sandbox_layers::database::{Database, EntryReport, TreeEntry};
use sandbox_layers::{LayerError, folder};
use thiserror::Error;

use crate::args::Flags;
use crate::args::fs::{Cat, Ls};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, visible};

#[derive(Debug, Error)]
enum ReadError {
    #[error("there is no `{0}` in the filesystem")]
    Missing(String),
    #[error("`{0}` is not a regular file")]
    NotAFile(String),
    #[error("cannot read `{path}`")]
    Content { path: String, source: io::Error },
}

/// Lists a directory, or shows the named file.
pub(crate) fn ls(flags: &Flags, ls: &Ls, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&ls.target.target, here)?;
    let found = database.listing(find(&database, &ls.path)?, ls.recursive)?;
    if flags.json {
        let rows: Result<Vec<EntryReport>, LayerError> =
            found.iter().map(|entry| database.report(entry)).collect();
        super::super::json(&rows?, io);
        return Ok(0);
    }
    let text: String = found.iter().map(|entry| line(entry) + "\n").collect();
    io.data(&text);
    Ok(0)
}

/// Formats an entry as AgentFS does: `d src`, `f src/main.rs`.
fn line(entry: &TreeEntry) -> String {
    let path = visible(&entry.path.to_string_lossy()).replace('\n', "\\n");
    format!("{} {path}", entry.inode.letter())
}

/// Prints a file, byte for byte.
pub(crate) fn cat(cat: &Cat, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&cat.target.target, here)?;
    let spot = find(&database, &cat.path)?;
    let path = spot.path.to_string_lossy().into_owned();
    if !spot.inode.is_file() {
        return Err(Failed::new(ReadError::NotAFile(path), None));
    }
    let mut content = database.read(&spot)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = content.read(&mut buffer).map_err(|source| {
            Failed::new(ReadError::Content { path: path.clone(), source }, None)
        })?;
        // A closed pipe (`| head`) is not an error.
        if length == 0 || !io.bytes(&buffer[..length]) {
            break;
        }
    }
    Ok(0)
}

fn find(database: &Database, path: &Path) -> Result<TreeEntry, Failed> {
    let missing = || {
        let hint = "`agent-sandbox fs ls` lists the entries".to_owned();
        Failed::new(ReadError::Missing(path.to_string_lossy().into_owned()), Some(hint))
    };
    database.find(path)?.ok_or_else(missing)
}
