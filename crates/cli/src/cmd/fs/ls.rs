//! `fs ls` and `fs cat`: read a filesystem without mounting it.

use std::io::{self, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use sandbox_layers::database::{Database, EntryReport, TreeEntry};
use sandbox_layers::{LayerError, folder};
use sandbox_protocol::Hint;
use serde_json::json;
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

impl Hint for ReadError {
    fn hint(&self) -> Option<String> {
        matches!(self, Self::Missing(_)).then(|| "`agent-sandbox fs ls` lists the entries".into())
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "not_found",
            Self::NotAFile(_) => "invalid",
            Self::Content { .. } => "internal",
        }
    }
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

/// Prints a file, byte for byte. Under `--json` prints text as `text`, and other content as `base64`.
pub(crate) fn cat(flags: &Flags, cat: &Cat, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&cat.target.target, here)?;
    let spot = find(&database, &cat.path)?;
    let path = spot.path.to_string_lossy().into_owned();
    if !spot.inode.is_file() {
        return Err(ReadError::NotAFile(path).into());
    }
    let mut whole = Vec::new();
    each_piece(&mut database.read(&spot)?, &mut |piece| {
        if flags.json {
            whole.extend_from_slice(piece);
        }
        // A closed pipe (`| head`) is not an error.
        flags.json || io.bytes(piece)
    })
    .map_err(|source| ReadError::Content { path: path.clone(), source })?;
    if flags.json {
        let content = match String::from_utf8(whole) {
            Ok(text) => json!({ "path": path, "text": text }),
            Err(other) => json!({ "path": path, "base64": BASE64.encode(other.as_bytes()) }),
        };
        super::super::json(&content, io);
    }
    Ok(0)
}

/// Reads to the end, or until `take` returns false.
fn each_piece(content: &mut dyn Read, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = content.read(&mut buffer)?;
        if length == 0 || !take(&buffer[..length]) {
            return Ok(());
        }
    }
}

fn find(database: &Database, path: &Path) -> Result<TreeEntry, Failed> {
    let missing = || ReadError::Missing(path.to_string_lossy().into_owned());
    Ok(database.find(path)?.ok_or_else(missing)?)
}
