//! `fs ls` and `fs cat`: the tree of a filesystem, without mounting it.

use std::io;
use std::path::Path;

use sandbox_layers::LayerError;
use sandbox_layers::database::{Database, EntrySource, TreeEntry};
use serde_json::{Value, json};
use thiserror::Error;

use crate::args::Flags;
use crate::args::fs::{Cat, Ls};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, visible};
use sandbox_layers::folder;

#[derive(Debug, Error)]
enum ReadError {
    #[error("there is no `{0}` in the filesystem")]
    Missing(String),
    #[error("`{0}` is no regular file")]
    NoFile(String),
    #[error("`{path}` cannot be read")]
    Content { path: String, source: io::Error },
}

/// Lists a directory.
pub(crate) fn ls(flags: &Flags, ls: &Ls, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&ls.target.target, here)?;
    let spot = find(&database, &ls.path)?;
    let found = list(&database, spot, ls.recursive)?;
    if flags.json {
        let rows: Result<Vec<Value>, LayerError> =
            found.iter().map(|spot| row(&database, spot)).collect();
        super::super::json(&rows?, io);
        return Ok(0);
    }
    let text: String = found.iter().map(|spot| line(spot) + "\n").collect();
    io.data(&text);
    Ok(0)
}

/// A directory's entries, or the one thing that was named.
pub(super) fn list(
    database: &Database,
    spot: TreeEntry,
    recursive: bool,
) -> Result<Vec<TreeEntry>, LayerError> {
    match (spot.inode.is_dir(), recursive) {
        (false, _) => Ok(vec![spot]),
        (true, false) => database.list(&spot),
        (true, true) => database.below(&spot),
    }
}

/// `d src`, `f src/main.rs`: what AgentFS prints.
pub(super) fn line(spot: &TreeEntry) -> String {
    format!(
        "{} {}",
        letter(spot.inode.mode),
        visible(&spot.path.to_string_lossy()).replace('\n', "\\n")
    )
}

/// What an entry is, in a letter.
pub(super) fn letter(mode: u32) -> char {
    match mode & 0o170_000 {
        0o040_000 => 'd',
        0o100_000 => 'f',
        0o120_000 => 'l',
        _ => '?',
    }
}

fn row(database: &Database, spot: &TreeEntry) -> Result<Value, LayerError> {
    let inode = spot.inode;
    let link = letter(inode.mode) == 'l';
    let target = if link { Some(database.link_target(spot)?) } else { None };
    Ok(json!({
        "path": spot.path.to_string_lossy(),
        "type": kind(inode.mode),
        "mode": format!("{:04o}", inode.mode & 0o7777),
        "uid": inode.uid,
        "gid": inode.gid,
        "size": inode.size,
        "mtime": inode.mtime.0,
        "links": inode.links,
        "from": if matches!(spot.source, EntrySource::Base(_)) { "base" } else { "layer" },
        "target": target.map(|target| target.to_string_lossy().into_owned()),
    }))
}

/// What an entry is, in a word.
pub(super) fn kind(mode: u32) -> &'static str {
    match mode & 0o170_000 {
        0o040_000 => "dir",
        0o100_000 => "file",
        0o120_000 => "symlink",
        0o010_000 => "fifo",
        0o140_000 => "socket",
        _ => "device",
    }
}

/// Prints a file, byte for byte.
pub(crate) fn cat(cat: &Cat, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let database = folder::open(&cat.target.target, here)?;
    let spot = find(&database, &cat.path)?;
    let path = spot.path.to_string_lossy().into_owned();
    if letter(spot.inode.mode) != 'f' {
        return Err(Failed::new(ReadError::NoFile(path), None));
    }
    let mut content = database.read(&spot)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = content.read(&mut buffer).map_err(|source| {
            Failed::new(ReadError::Content { path: path.clone(), source }, None)
        })?;
        // A reader that has gone away (`| head`) is no error.
        if length == 0 || !io.bytes(&buffer[..length]) {
            break;
        }
    }
    Ok(0)
}

fn find(database: &Database, path: &Path) -> Result<TreeEntry, Failed> {
    let missing = || {
        let hint = "`agent-sandbox fs ls` lists what is there".to_owned();
        Failed::new(ReadError::Missing(path.to_string_lossy().into_owned()), Some(hint))
    };
    database.find(path)?.ok_or_else(missing)
}
