//! New database without a base as the destination.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::{Item, SET_ID, Sink, TransferError};
use crate::database::create::{close, discard, draft, empty, publish};
use crate::database::{CHUNK, CreateError, Inode, Tables};

/// Writes a database.
pub struct ToDatabase {
    path: PathBuf,
    db: Option<Connection>,
    tables: Tables,
    /// Directories by path, and files with several names by number.
    dirs: HashMap<PathBuf, i64>,
    first: HashMap<u64, i64>,
}

impl ToDatabase {
    /// Starts a database at `path`, which must not exist. It appears there once it is complete.
    pub fn new(path: &Path, tables: Tables) -> Result<Self, TransferError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(CreateError::Exists(path.to_owned()).into());
        }
        let db = empty(&draft(path), tables)?;
        db.execute_batch("BEGIN")?;
        let dirs = HashMap::from([(PathBuf::new(), 1)]);
        Ok(Self { path: path.to_owned(), db: Some(db), tables, dirs, first: HashMap::new() })
    }

    fn db(&self) -> Result<&Connection, TransferError> {
        self.db.as_ref().ok_or_else(|| TransferError::Archive("the database is closed".into()))
    }

    fn inode(&self, item: &Item) -> Result<i64, TransferError> {
        let inode = &item.inode;
        let mut insert = self.db()?.prepare_cached(
            "INSERT INTO fs_inode (mode, nlink, uid, gid, size, atime, mtime, ctime, rdev, atime_nsec, mtime_nsec, ctime_nsec)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?6, ?7, ?8, ?8, ?8)",
        )?;
        let size = match &item.target {
            Some(target) => target.len() as u64,
            None if inode.is_file() => inode.size,
            None => 0,
        };
        insert.execute(params![
            inode.mode & !SET_ID,
            if inode.is_dir() { 2 } else { 0 },
            inode.uid,
            inode.gid,
            size.cast_signed(),
            inode.mtime.0,
            inode.device.cast_signed(),
            inode.mtime.1,
        ])?;
        Ok(self.db()?.last_insert_rowid())
    }

    fn name(&self, item: &Item, ino: i64) -> Result<(), TransferError> {
        let path = item.path.as_path();
        let parent = path.parent().and_then(|parent| self.dirs.get(parent));
        let parent = *parent
            .ok_or_else(|| TransferError::refused(item, "there is no directory to hold it"))?;
        let name = path.file_name().unwrap_or_default();
        let db = self.db()?;
        let inserted = match std::str::from_utf8(name.as_bytes()) {
            Ok(text) => db
                .prepare_cached(
                    "INSERT OR IGNORE INTO fs_dentry (name, parent_ino, ino) VALUES (?, ?, ?)",
                )?
                .execute(params![text, parent, ino])?,
            Err(_) => db
                .prepare_cached(
                    "INSERT OR IGNORE INTO sandbox_dentry (name, parent_ino, ino) VALUES (?, ?, ?)",
                )?
                .execute(params![name.as_bytes(), parent, ino])?,
        };
        if inserted == 0 {
            return Err(TransferError::refused(item, "it occurs twice"));
        }
        if !item.inode.is_dir() {
            db.prepare_cached("UPDATE fs_inode SET nlink = nlink + 1 WHERE ino = ?")?
                .execute([ino])?;
        }
        Ok(())
    }

    fn content(&self, ino: i64, content: &mut dyn Read) -> Result<(), TransferError> {
        let mut insert = self
            .db()?
            .prepare_cached("INSERT INTO fs_data (ino, chunk_index, data) VALUES (?, ?, ?)")?;
        let mut buffer = Vec::with_capacity(CHUNK as usize);
        for index in 0_i64.. {
            buffer.clear();
            let mut part = io::Read::take(&mut *content, CHUNK.into());
            part.read_to_end(&mut buffer).map_err(TransferError::reading(&self.path))?;
            if buffer.is_empty() {
                break;
            }
            // AgentFS concatenates all chunks, so a missing one is not a hole.
            if self.tables == Tables::Theirs || buffer.iter().any(|byte| *byte != 0) {
                insert.execute(params![ino, index, buffer])?;
            }
        }
        Ok(())
    }

    fn target(&self, ino: i64, target: &std::ffi::OsStr) -> Result<(), TransferError> {
        let db = self.db()?;
        match std::str::from_utf8(target.as_bytes()) {
            Ok(text) => db.execute(
                "INSERT INTO fs_symlink (ino, target) VALUES (?, ?)",
                params![ino, text],
            )?,
            Err(_) => db.execute(
                "INSERT INTO sandbox_symlink (ino, target) VALUES (?, ?)",
                params![ino, target.as_bytes()],
            )?,
        };
        Ok(())
    }

    /// Checks that the tables of AgentFS can represent an entry.
    fn fits(&self, item: &Item) -> Result<(), TransferError> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        if self.tables == Tables::All {
            return Ok(());
        }
        if !text(item.path.as_path().as_os_str().as_bytes()) {
            return Err(TransferError::refused(item, "its name is not UTF-8"));
        }
        if item.target.as_ref().is_some_and(|target| !text(target.as_bytes())) {
            return Err(TransferError::refused(item, "its target is not UTF-8"));
        }
        Ok(())
    }
}

impl Sink for ToDatabase {
    fn root(&mut self, inode: &Inode) -> Result<(), TransferError> {
        self.db()?.execute(
            "UPDATE fs_inode SET mode = ?, uid = ?, gid = ?, mtime = ?, mtime_nsec = ? WHERE ino = 1",
            params![inode.mode & !SET_ID, inode.uid, inode.gid, inode.mtime.0, inode.mtime.1],
        )?;
        Ok(())
    }

    fn put(&mut self, item: &Item, content: Option<&mut dyn Read>) -> Result<(), TransferError> {
        self.fits(item)?;
        if let Some(ino) = item.same.and_then(|same| self.first.get(&same)) {
            return self.name(item, *ino);
        }
        let path = item.path.as_path();
        if item.inode.is_dir() && self.dirs.contains_key(path) {
            return Ok(()); // An archive may name a directory again.
        }
        let ino = self.inode(item)?;
        if let Err(error) = self.name(item, ino) {
            self.db()?.execute("DELETE FROM fs_inode WHERE ino = ?", [ino])?;
            return Err(error);
        }
        match (content, &item.target) {
            (Some(content), _) => self.content(ino, content)?,
            (None, Some(target)) => self.target(ino, target)?,
            (None, None) => {}
        }
        if self.tables == Tables::All {
            for (name, value) in &item.xattrs {
                self.db()?
                    .prepare_cached(
                        "INSERT OR REPLACE INTO sandbox_xattr (ino, name, value) VALUES (?, ?, ?)",
                    )?
                    .execute(params![ino, name.as_bytes(), value])?;
            }
        }
        if item.inode.is_dir() {
            self.dirs.insert(path.to_owned(), ino);
        }
        if let Some(same) = item.same {
            self.first.insert(same, ino);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TransferError> {
        if let Some(db) = self.db.take() {
            db.execute_batch("COMMIT")?;
            close(db)?;
        }
        publish(&draft(&self.path), &self.path)?;
        Ok(())
    }
}

impl Drop for ToDatabase {
    fn drop(&mut self) {
        drop(self.db.take());
        // The draft has served its purpose. If it cannot be removed, it is harmless and visible in the directory.
        let _ = discard::<CreateError>(&draft(&self.path), Ok(()));
    }
}
