//! What is remembered: the sessions there are, and every thing that was made for them.
//!
//! A thing is put on record as planned before it is made, and as made afterwards. Its name follows
//! from the session's id, so that a crash between the two is put right by looking for that name.

mod rows;
mod things;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::ControlError;

pub(crate) use rows::{existing, name_of};
pub use things::{Made, Thing, ThingKind};

/// The version of the tables below.
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

/// How long another process may hold the record.
const PATIENCE: Duration = Duration::from_secs(60);

/// The record of all sessions of a user.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    conn: Connection,
}

impl Store {
    /// Opens the record, and makes it where there is none.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Store { path: path.to_path_buf(), source };
        private(path).map_err(crate::error::cannot("make", path))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
        let version = prepare(&mut conn).map_err(failed)?;
        if version != VERSION {
            let path = path.to_path_buf();
            return Err(ControlError::Version { path, found: version, known: VERSION });
        }
        Ok(Self { path: path.to_path_buf(), conn })
    }

    /// Opens a record that holds nothing and is nowhere: for a command that only reads, where there is none.
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

/// The file, for its owner alone.
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Makes the tables where there are none; returns their version.
fn prepare(conn: &mut Connection) -> rusqlite::Result<i64> {
    conn.busy_timeout(PATIENCE)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // What a power cut may take is the last record of things that the cut has ended, too.
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    let version =
        |conn: &Connection| conn.pragma_query_value(None, "user_version", |row| row.get(0));
    if version(conn)? == 0 {
        let change = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Somebody else may have been first.
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
