//! An entry of the tree as text, and as data for programs.

use serde::Serialize;

use super::Database;
use super::rows::{DIR, FILE, Inode, SYMLINK, TYPE};
use super::view::{EntrySource, TreeEntry};
use crate::change::LayerError;

/// Attributes of an entry, for programs.
#[derive(Debug, Serialize)]
pub struct EntryReport {
    /// Source: `base` or `layer`.
    pub from: &'static str,
    /// Group.
    pub gid: u32,
    /// Link count.
    pub links: u64,
    /// Permissions, in octal.
    pub mode: String,
    /// Time of the last write, in seconds since the epoch.
    pub mtime: i64,
    /// Path without a leading slash.
    pub path: String,
    /// Length of a regular file.
    pub size: u64,
    /// Target of a symbolic link.
    pub target: Option<String>,
    /// Type, as one word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Owner.
    pub uid: u32,
}

impl Inode {
    /// Returns the type as AgentFS prints it: `d`, `f`, `l` or `?`.
    pub fn letter(self) -> char {
        match self.mode & TYPE {
            DIR => 'd',
            FILE => 'f',
            SYMLINK => 'l',
            _ => '?',
        }
    }

    /// Returns the type as one word.
    pub fn kind(self) -> &'static str {
        match self.mode & TYPE {
            DIR => "dir",
            FILE => "file",
            SYMLINK => "symlink",
            0o010_000 => "fifo",
            0o140_000 => "socket",
            _ => "device",
        }
    }
}

impl Database {
    /// Returns the entries of a directory, with `recursive` everything below it. For any other entry, returns that.
    pub fn listing(&self, entry: TreeEntry, recursive: bool) -> Result<Vec<TreeEntry>, LayerError> {
        match (entry.inode.is_dir(), recursive) {
            (false, _) => Ok(vec![entry]),
            (true, false) => self.list(&entry),
            (true, true) => self.below(&entry),
        }
    }

    /// Returns the attributes of an entry.
    pub fn report(&self, entry: &TreeEntry) -> Result<EntryReport, LayerError> {
        let TreeEntry { path, inode, source, .. } = entry;
        let target = inode.is_symlink().then(|| self.link_target(entry)).transpose()?;
        Ok(EntryReport {
            from: if matches!(source, EntrySource::Base(_)) { "base" } else { "layer" },
            gid: inode.gid,
            links: inode.links,
            mtime: inode.mtime.0,
            mode: format!("{:04o}", inode.mode & 0o7777),
            path: path.to_string_lossy().into_owned(),
            size: inode.size,
            target: target.map(|target| target.to_string_lossy().into_owned()),
            kind: inode.kind(),
            uid: inode.uid,
        })
    }
}
