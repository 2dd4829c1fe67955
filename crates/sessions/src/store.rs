//! Database of sessions and of the resources that were created for them.
//!
//! A resource is recorded as planned before it is created, and as made afterwards. Its name derives
//! from the session's id, so after a crash in between, the next command looks for that name.

mod rows;
mod things;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::ControlError;

pub(crate) use rows::{existing, name_of};
pub use things::{Made, Thing, ThingKind};

/// Version of the schema.
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE session (
  id      TEXT PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  named   INTEGER NOT NULL,
  project TEXT NOT NULL,
  backend TEXT NOT NULL,
  request TEXT NOT NULL,
  policy  TEXT NOT NULL,
  cow     INTEGER NOT NULL,
  wanted  TEXT NOT NULL,
  created INTEGER NOT NULL,
  boot    TEXT NOT NULL
) STRICT;
CREATE TABLE thing (
  session  TEXT NOT NULL REFERENCES session (id),
  step     INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  identity TEXT NOT NULL,
  state    TEXT NOT NULL CHECK (state IN ('planned', 'made')),
  PRIMARY KEY (session, step),
  UNIQUE (session, kind, identity)
) STRICT;
";

/// Time to wait for another process that has the database locked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Database of a user's sessions.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    conn: Connection,
}

impl Store {
    /// Opens the database, and creates it if needed.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Store { path: path.to_path_buf(), source };
        private(path).map_err(crate::error::cannot("create", path))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
        let version = prepare(&mut conn).map_err(failed)?;
        if version != VERSION {
            let path = path.to_path_buf();
            return Err(ControlError::Version { path, found: version, known: VERSION });
        }
        Ok(Self { path: path.to_path_buf(), conn })
    }

    /// Opens an empty database in memory, for commands that only read when no file exists.
    pub fn empty(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Store { path: path.to_path_buf(), source };
        let mut conn = Connection::open_in_memory().map_err(failed)?;
        prepare(&mut conn).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), conn })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> ControlError + '_ {
        |source| ControlError::Store { path: self.path.clone(), source }
    }
}

/// Creates the file for its owner alone.
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Creates the tables if needed. Returns their version.
fn prepare(conn: &mut Connection) -> rusqlite::Result<i64> {
    conn.busy_timeout(PATIENCE)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // A power cut may lose the last transaction, but it also ends the processes and containers it
    // describes.
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    let version =
        |conn: &Connection| conn.pragma_query_value(None, "user_version", |row| row.get(0));
    if version(conn)? == 0 {
        let change = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Another process may have created the tables meanwhile.
        if version(&change)? == 0 {
            change.execute_batch(SCHEMA)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        change.commit()?;
    }
    version(conn)
}

#[cfg(test)]
mod tests;
