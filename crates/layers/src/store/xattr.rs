//! Extended attributes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rusqlite::OptionalExtension;

use super::statement::{Statement, Value};
use super::{Store, StoreError};

impl Store {
    /// Returns the value of an attribute.
    pub(crate) fn xattr(&self, ino: u64, name: &OsStr) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.any.xattrs {
            return Ok(None);
        }
        let mut query = self
            .journal
            .conn
            .prepare_cached("SELECT value FROM sandbox_xattr WHERE ino=?1 AND name=?2")?;
        Ok(query.query_row((ino.cast_signed(), name.as_bytes()), |row| row.get(0)).optional()?)
    }

    /// Returns the names of all attributes.
    pub(crate) fn xattrs(&self, ino: u64) -> Result<Vec<OsString>, StoreError> {
        if !self.any.xattrs {
            return Ok(Vec::new());
        }
        let mut query =
            self.journal.conn.prepare_cached("SELECT name FROM sandbox_xattr WHERE ino=?1")?;
        let names = query.query_map([ino.cast_signed()], |row| row.get::<_, Vec<u8>>(0))?;
        Ok(names.map(|name| name.map(OsString::from_vec)).collect::<Result<_, _>>()?)
    }

    /// Sets an attribute.
    pub(crate) fn put_xattr(
        &mut self,
        ino: u64,
        name: &OsStr,
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.any.xattrs = true;
        let values = [ino.into(), Value::Blob(name.as_bytes()), Value::Blob(value)];
        self.journal.run(Statement::PutXattr, &values)
    }

    /// Removes an attribute.
    pub(crate) fn drop_xattr(&mut self, ino: u64, name: &OsStr) -> Result<(), StoreError> {
        self.journal.run(Statement::DropXattr, &[ino.into(), Value::Blob(name.as_bytes())])
    }
}
