//! Every invariant of a database, one by one: what is broken, and what can be mended.

mod find;
mod mend;

use std::path::Path;

use serde::Serialize;

pub(crate) use mend::OF_AN_INODE;

use super::open::{check_schema, connect, prepare};
use crate::change::LayerError;

/// What kind of rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// SQLite itself finds the file damaged.
    File,
    /// A setting makes no sense, or the base is not there.
    Setting,
    /// There is no root directory.
    Root,
    /// An inode has an impossible value.
    Inode,
    /// A name cannot be one, or is there twice.
    Name,
    /// A name leads to an inode that is not there, or stands in something that is no directory.
    Dangling,
    /// An inode has no name.
    Nameless,
    /// An inode has another count of names than it says.
    Links,
    /// A directory is in two places, or inside itself.
    Cycle,
    /// A piece of a file lies outside of it, or is too large.
    Chunk,
    /// A link has no target, or a target belongs to no link.
    Symlink,
    /// Something is stored for an inode that is not there.
    Orphan,
    /// A file beside the database is missing.
    Loose,
    /// Something is said to be gone that the base does not have.
    Whiteout,
    /// A directory stands for a path of the base that makes no sense.
    Redirect,
}

impl Rule {
    /// Returns true when mending it loses nothing.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Dangling | Self::Links | Self::Orphan | Self::Whiteout)
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The rule.
    pub rule: Rule,
    /// What was found.
    pub what: String,
}

/// A list of problems stops here: the first thousand tell the story.
const MOST: usize = 1000;

/// Looks at everything. An error means that not even that is possible.
pub fn check(path: &Path) -> Result<Vec<Problem>, LayerError> {
    let db = match connect(path) {
        Err(LayerError::Damaged { what }) => return Ok(vec![Problem { rule: Rule::File, what }]),
        connected => connected?,
    };
    let mut found = find::all(&db, path)?;
    found.truncate(MOST);
    Ok(found)
}

/// Mends what can be mended without losing anything; returns what is left.
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
