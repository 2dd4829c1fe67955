//! What a killed mount left behind, put right when the database is next opened: the redo log is run,
//! inodes without a name are deleted, loose files taken in.

use std::path::Path;

use rusqlite::Connection;
use rustix::io::Errno;

use super::journal::replay;
use super::open::follows;
use super::redo::{self, Follows};
use super::statement::Statement;
use super::{Store, StoreError, beside};

/// Runs the redo log, if it follows the state that the database is in; gives back the next state.
pub(super) fn redo(conn: &Connection, path: &Path, epoch: u64) -> Result<Follows, StoreError> {
    let log = redo::read(&beside(path, "-redo"), follows(conn, epoch)?)?;
    if log.is_empty() {
        return Ok(follows(conn, epoch)?);
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = replay(conn, &log).and_then(|()| {
        conn.execute(Statement::PutEpoch.sql(), [(epoch + 1).to_string()])?;
        conn.execute_batch("COMMIT")
    });
    if let Err(error) = done {
        if !conn.is_autocommit() {
            conn.execute_batch("ROLLBACK")?;
        }
        return Err(error.into());
    }
    Ok(follows(conn, epoch + 1)?)
}

impl Store {
    pub(super) fn recover(&mut self) -> Result<(), StoreError> {
        let rows = self.numbers("SELECT ino FROM sandbox_loose")?;
        let found = self.loose.found()?;
        self.loose.adopt(rows.iter().copied());
        for ino in found.into_iter().filter(|ino| !rows.contains(ino)) {
            self.loose.doom(ino);
        }
        for ino in self.numbers("SELECT ino FROM sandbox_orphan")? {
            self.bury_orphan(ino)?;
        }
        match self.settle_loose() {
            // They stay where they are, and are served from there.
            Err(error) if error.errno() == Errno::NOSPC => Ok(()),
            other => other,
        }
    }

    fn bury_orphan(&mut self, ino: u64) -> Result<(), StoreError> {
        self.drop_orphan(ino)?;
        if let Some(inode) = self.inode(ino)?.filter(|inode| inode.nlink == 0) {
            let shown = self.shown(ino)?;
            self.drop_inode(ino, shown, &inode)?;
        }
        Ok(())
    }

    /// Takes all loose files in, then deletes them.
    pub(super) fn settle_loose(&mut self) -> Result<(), StoreError> {
        for ino in self.all_loose() {
            let Some(mut inode) = self.inode(ino)? else {
                self.forget_loose(ino)?;
                continue;
            };
            let taken = self.take_in(ino).and_then(|size| {
                inode.size = size;
                self.put_inode(ino, &inode)?;
                self.sync()
            });
            if let Err(error) = taken {
                self.leave_loose(ino);
                return Err(error);
            }
            // A log that cannot be cut now is cut later.
            let _ = self.checkpoint(32 << 20);
        }
        if self.has_doomed() {
            self.sync()?;
        }
        self.commit()?;
        self.loose.remove_dir();
        Ok(())
    }

    /// Undoes what was taken in of a file; it is still there.
    fn leave_loose(&mut self, ino: u64) {
        let _ = self.take_back(0);
        self.loose.adopt([ino]);
        let _ = self.loosen(ino);
        let _ = self.commit();
    }

    fn numbers(&self, sql: &str) -> Result<Vec<u64>, StoreError> {
        let mut query = self.journal.conn.prepare(sql)?;
        let numbers = query.query_map([], |row| row.get::<_, i64>(0))?;
        Ok(numbers.map(|number| number.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
    }
}
