//! Recovery from a killed mount when the database is next opened. The redo log is replayed, inodes
//! without a name are deleted and loose files are moved into the database.

use std::path::Path;

use rusqlite::Connection;
use rustix::io::Errno;

use super::redo::{self, Follows};
use super::{Store, StoreError, beside, pieces};

/// Replays the redo log if it follows the current state. Returns the next state.
pub(super) fn redo(conn: &Connection, path: &Path, epoch: u64) -> Result<Follows, StoreError> {
    let follows = pieces::follows(conn, epoch)?;
    let log = redo::read(&beside(path, "-redo"), follows)?;
    if !log.is_empty() {
        pieces::commit(conn, &log, follows, &mut 0)?;
        return Ok(pieces::follows(conn, epoch + 1)?);
    }
    Ok(follows)
}

impl Store {
    pub(super) fn recover(&mut self) -> Result<(), StoreError> {
        let found = self.loose.found()?;
        let rows = self.adopt_loose()?;
        for ino in found.into_iter().filter(|ino| !rows.contains(ino)) {
            self.loose.doom(ino);
        }
        self.drop_filling()?;
        for ino in self.numbers("SELECT ino FROM sandbox_orphan")? {
            self.bury_orphan(ino)?;
        }
        match self.settle_loose() {
            // They remain loose and stay readable.
            Err(error) if error.errno() == Errno::NOSPC => Ok(()),
            other => other,
        }
    }

    /// Registers the loose files that have a row.
    pub(super) fn adopt_loose(&mut self) -> Result<Vec<u64>, StoreError> {
        let rows = self.numbers("SELECT ino FROM sandbox_loose")?;
        self.loose.adopt(rows.iter().copied());
        Ok(rows)
    }

    fn bury_orphan(&mut self, ino: u64) -> Result<(), StoreError> {
        self.drop_orphan(ino)?;
        if let Some(inode) = self.inode(ino)?.filter(|inode| inode.nlink == 0) {
            let shown = self.shown(ino)?;
            self.drop_inode(ino, shown, &inode)?;
        }
        Ok(())
    }

    /// Moves loose files that fit into the database and deletes them.
    pub(super) fn settle_loose(&mut self) -> Result<(), StoreError> {
        for ino in self.all_loose() {
            let Some(mut inode) = self.inode(ino)? else {
                self.forget_loose(ino)?;
                continue;
            };
            let (size, blocks) = self.loose_size(ino)?;
            if !self.fits(blocks) {
                // It remains loose.
                inode.size = size;
                self.put_inode(ino, &inode)?;
                continue;
            }
            let taken = self.take_in(ino).and_then(|size| {
                inode.size = size;
                self.put_inode(ino, &inode)?;
                self.sync()
            });
            if let Err(error) = taken {
                self.leave_loose(ino);
                return Err(error);
            }
            // A later checkpoint truncates the log.
            let _ = self.checkpoint(32 << 20);
        }
        if self.has_doomed() {
            self.sync()?;
        }
        self.commit()?;
        if self.all_loose().is_empty() {
            self.loose.remove_dir();
        }
        Ok(())
    }

    /// Rolls back an incomplete move of a loose file, which still exists.
    fn leave_loose(&mut self, ino: u64) {
        let _ = self.roll_back(0);
        let _ = self.cut_stale(ino, 0);
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
