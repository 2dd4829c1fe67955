//! Consistency check of a database: finds broken invariants and repairs some of them.

mod find;
mod mend;

use std::path::Path;

use serde::Serialize;

pub(crate) use mend::OF_AN_INODE;

use super::open::{check_schema, connect, prepare};
use crate::change::LayerError;

/// Invariant that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// SQLite reports the file as damaged.
    File,
    /// A setting is invalid, or the base is missing.
    Setting,
    /// There is no root directory.
    Root,
    /// An inode has an invalid value.
    Inode,
    /// A name is invalid or duplicate.
    Name,
    /// A name refers to a missing inode, or its parent is not a directory.
    Dangling,
    /// An inode has no name.
    Nameless,
    /// The link count of an inode does not match its names.
    Links,
    /// A directory has two parents, or contains itself.
    Cycle,
    /// A chunk is outside its file or too large.
    Chunk,
    /// A link has no target, or a target belongs to no link.
    Symlink,
    /// A row belongs to a missing inode.
    Orphan,
    /// A file beside the database is missing.
    Loose,
    /// A whiteout names a path that the base does not have.
    Whiteout,
    /// A directory refers to an invalid path of the base.
    Redirect,
}

impl Rule {
    /// Returns true when repairing it loses no data.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Dangling | Self::Links | Self::Orphan | Self::Whiteout)
    }
}

/// Broken invariant that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The rule.
    pub rule: Rule,
    /// Description.
    pub what: String,
}

/// Maximum number of reported problems.
const MOST: usize = 1000;

/// Checks all invariants. An error means that the check itself failed.
pub fn check(path: &Path) -> Result<Vec<Problem>, LayerError> {
    let db = match connect(path) {
        Err(LayerError::Damaged { what }) => return Ok(vec![Problem { rule: Rule::File, what }]),
        connected => connected?,
    };
    let mut found = find::all(&db, path)?;
    found.truncate(MOST);
    Ok(found)
}

/// Repairs everything that can be repaired without data loss. Returns the remaining problems.
pub fn repair(path: &Path) -> Result<Vec<Problem>, LayerError> {
    let flags =
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = rusqlite::Connection::open_with_flags(path, flags)?;
    prepare(&db)?;
    check_schema(&db)?;
    mend::all(&mut db)?;
    drop(db);
    check(path)
}
