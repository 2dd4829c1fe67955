//! Directory entries stored in the layer, the source of a directory's other entries, and link
//! targets.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use super::statement::{Statement, Value};
use super::{Kind, Store, StoreError};

/// Entry of a directory in the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: OsString,
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
}

/// Source of the remaining entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rest {
    /// From the directory of this name in the base directory of its parent.
    Default,
    /// None: the directory is opaque.
    Opaque,
    /// From this directory of the base, relative to its root.
    From(PathBuf),
}

impl Store {
    /// Returns the inode of a name.
    pub(crate) fn find(&self, parent: u64, name: &OsStr) -> Result<Option<u64>, StoreError> {
        let conn = &self.journal.conn;
        let parent = parent.cast_signed();
        let ino: Option<i64> = if let Some(text) = name.to_str() {
            conn.prepare_cached("SELECT ino FROM fs_dentry WHERE parent_ino=?1 AND name=?2")?
                .query_row((parent, text), |row| row.get(0))
                .optional()?
        } else if self.any.raw_names {
            conn.prepare_cached("SELECT ino FROM sandbox_dentry WHERE parent_ino=?1 AND name=?2")?
                .query_row((parent, name.as_bytes()), |row| row.get(0))
                .optional()?
        } else {
            None
        };
        Ok(ino.map(i64::cast_unsigned))
    }

    /// Adds a name for an inode.
    pub(crate) fn put_name(
        &mut self,
        parent: u64,
        name: &OsStr,
        ino: u64,
    ) -> Result<(), StoreError> {
        let (statement, name) = match name.to_str() {
            Some(text) => (Statement::PutName, Value::Text(text)),
            None => (Statement::PutRawName, Value::Blob(name.as_bytes())),
        };
        self.any.raw_names |= statement == Statement::PutRawName;
        self.journal.run(statement, &[parent.into(), name, ino.into()])
    }

    /// Removes a name.
    pub(crate) fn drop_name(&mut self, parent: u64, name: &OsStr) -> Result<(), StoreError> {
        match name.to_str() {
            Some(text) => {
                self.journal.run(Statement::DropName, &[parent.into(), Value::Text(text)])
            }
            None => self
                .journal
                .run(Statement::DropRawName, &[parent.into(), Value::Blob(name.as_bytes())]),
        }
    }

    /// Returns all names in a directory, without those that no program could use.
    pub(crate) fn names(&self, parent: u64) -> Result<Vec<Named>, StoreError> {
        let mut names = Vec::new();
        for sql in [
            "SELECT CAST(name AS BLOB), d.ino, mode FROM fs_dentry d JOIN fs_inode i ON i.ino=d.ino
             WHERE parent_ino=?1",
            "SELECT name, d.ino, mode FROM sandbox_dentry d JOIN fs_inode i ON i.ino=d.ino
             WHERE parent_ino=?1",
        ] {
            let mut query = self.journal.conn.prepare_cached(sql)?;
            let mut rows = query.query([parent.cast_signed()])?;
            while let Some(row) = rows.next()? {
                let name: Vec<u8> = row.get(0)?;
                let mode = u32::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
                if is_usable(&name) {
                    let ino = row.get::<_, i64>(1)?.cast_unsigned();
                    let kind = Kind::of(mode).unwrap_or(Kind::File);
                    names.push(Named { name: OsString::from_vec(name), ino, kind });
                }
            }
            if !self.any.raw_names {
                break;
            }
        }
        Ok(names)
    }

    /// Returns true when a directory has entries stored in the layer.
    pub(crate) fn has_names(&self, parent: u64) -> Result<bool, StoreError> {
        let mut query = self.journal.conn.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM fs_dentry WHERE parent_ino=?1)
             OR EXISTS (SELECT 1 FROM sandbox_dentry WHERE parent_ino=?1)",
        )?;
        Ok(query.query_row([parent.cast_signed()], |row| row.get(0))?)
    }

    /// Returns the source of a directory's remaining entries.
    pub(crate) fn rest(&self, ino: u64) -> Result<Rest, StoreError> {
        let mut query =
            self.journal.conn.prepare_cached("SELECT base FROM sandbox_dir WHERE ino=?1")?;
        let row: Option<Option<Vec<u8>>> =
            query.query_row([ino.cast_signed()], |row| row.get(0)).optional()?;
        Ok(match row {
            None => Rest::Default,
            Some(None) => Rest::Opaque,
            Some(Some(path)) => match crate::RelPath::new(relative(&path)) {
                Some(path) => Rest::From(path.as_path().to_owned()),
                None => Rest::Opaque,
            },
        })
    }

    /// Sets the source of a directory's remaining entries.
    pub(crate) fn put_rest(&mut self, ino: u64, rest: &Rest) -> Result<(), StoreError> {
        match rest {
            Rest::Default => self.journal.run(Statement::DropDir, &[ino.into()]),
            Rest::Opaque => self.journal.run(Statement::PutDir, &[ino.into(), Value::Null]),
            Rest::From(path) => {
                self.any.redirects = true;
                let path = absolute(path);
                self.journal.run(Statement::PutDir, &[ino.into(), Value::Blob(&path)])
            }
        }
    }

    /// Returns the target of a link.
    pub(crate) fn target(&self, ino: u64) -> Result<Option<OsString>, StoreError> {
        for sql in [
            "SELECT CAST(target AS BLOB) FROM fs_symlink WHERE ino=?1",
            "SELECT target FROM sandbox_symlink WHERE ino=?1",
        ] {
            let mut query = self.journal.conn.prepare_cached(sql)?;
            let target: Option<Vec<u8>> =
                query.query_row([ino.cast_signed()], |row| row.get(0)).optional()?;
            if let Some(target) = target {
                return Ok(Some(OsString::from_vec(target)));
            }
        }
        Ok(None)
    }

    /// Sets the target of a link.
    pub(crate) fn put_target(&mut self, ino: u64, target: &OsStr) -> Result<(), StoreError> {
        let (statement, target) = match target.to_str() {
            Some(text) => (Statement::PutSymlink, Value::Text(text)),
            None => (Statement::PutRawSymlink, Value::Blob(target.as_bytes())),
        };
        self.journal.run(statement, &[ino.into(), target])
    }
}

fn is_usable(name: &[u8]) -> bool {
    let special = name.is_empty() || name == b"." || name == b"..";
    !special && name.len() <= 255 && !name.contains(&b'/') && !name.contains(&0)
}

/// Returns a base path in its form in the tables: absolute, with the base as root.
pub(super) fn absolute(path: &Path) -> Vec<u8> {
    let mut bytes = vec![b'/'];
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    bytes
}

fn relative(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}
