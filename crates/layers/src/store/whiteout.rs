//! Whiteouts: deleted paths of the base.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::names::absolute;
use super::statement::{Statement, Value};
use super::{Store, StoreError, Time};

/// Shape and state of the whiteout table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// True for AgentFS's specification, which has one more column than its code.
    spec: bool,
    /// True when there are no whiteouts, so no query is needed.
    empty: bool,
}

impl Form {
    /// Inspects the table.
    pub(super) fn of(conn: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('fs_whiteout') WHERE name='parent_path'),
            NOT EXISTS (SELECT 1 FROM fs_whiteout) AND NOT EXISTS (SELECT 1 FROM sandbox_whiteout)";
        conn.query_row(sql, [], |row| Ok(Self { spec: row.get(0)?, empty: row.get(1)? }))
    }
}

impl Store {
    /// Returns true when a path of the base is deleted.
    pub(crate) fn is_gone(&self, path: &Path) -> Result<bool, StoreError> {
        if self.whiteouts.empty {
            return Ok(false);
        }
        let path = absolute(path);
        let conn = &self.journal.conn;
        let found: Option<i64> = match std::str::from_utf8(&path) {
            Ok(text) => conn
                .prepare_cached("SELECT 1 FROM fs_whiteout WHERE path=?1")?
                .query_row([text], |row| row.get(0))
                .optional()?,
            Err(_) => conn
                .prepare_cached("SELECT 1 FROM sandbox_whiteout WHERE path=?1")?
                .query_row([path.as_slice()], |row| row.get(0))
                .optional()?,
        };
        Ok(found.is_some())
    }

    /// Hides a path of the base.
    pub(crate) fn put_whiteout(&mut self, path: &Path) -> Result<(), StoreError> {
        self.whiteouts.empty = false;
        let now = Value::Int(Time::now().sec);
        let bytes = absolute(path);
        match std::str::from_utf8(&bytes) {
            Ok(text) if self.whiteouts.spec => {
                let parent = text.rsplit_once('/').map_or("/", |(parent, _)| parent);
                let parent = if parent.is_empty() { "/" } else { parent };
                let values = [Value::Text(text), now, Value::Text(parent)];
                self.journal.run(Statement::PutSpecWhiteout, &values)
            }
            Ok(text) => self.journal.run(Statement::PutWhiteout, &[Value::Text(text), now]),
            Err(_) => self.journal.run(Statement::PutRawWhiteout, &[Value::Blob(&bytes)]),
        }
    }

    /// Removes the whiteout of a path that has a new entry, because AgentFS checks whiteouts first.
    /// Keeps it if a directory that was moved away still needs it to hide its old entry.
    pub(crate) fn drop_whiteout(&mut self, path: &Path) -> Result<(), StoreError> {
        if self.whiteouts.empty || !self.is_gone(path)? || self.is_below_moved(path)? {
            return Ok(());
        }
        let bytes = absolute(path);
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.journal.run(Statement::DropWhiteout, &[Value::Text(text)]),
            Err(_) => self.journal.run(Statement::DropRawWhiteout, &[Value::Blob(&bytes)]),
        }
    }

    fn is_below_moved(&self, path: &Path) -> Result<bool, StoreError> {
        if !self.any.redirects {
            return Ok(false);
        }
        let mut query =
            self.journal.conn.prepare_cached("SELECT base FROM sandbox_dir WHERE base NOTNULL")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let moved = row.get_ref(0)?.as_bytes().unwrap_or_default();
            let moved = moved.strip_prefix(b"/").unwrap_or(moved);
            let moved = Path::new(std::ffi::OsStr::from_bytes(moved));
            if path != moved && path.starts_with(moved) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
