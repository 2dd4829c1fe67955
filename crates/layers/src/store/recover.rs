//! What a killed mount left behind, put right when the database is next opened: the redo log is run,
//! inodes without a name are deleted, loose files taken in.

use std::path::Path;

use rusqlite::Connection;
use rustix::io::Errno;

use super::redo::{self, Follows};
use super::{Store, StoreError, beside, pieces};

/// Runs the redo log, if it follows the state that the database is in; gives back the next state.
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
            // They stay where they are, and are served from there.
            Err(error) if error.errno() == Errno::NOSPC => Ok(()),
            other => other,
        }
    }

    /// Takes the loose files over that the database speaks of.
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

    /// Takes all loose files in for which there is room, then deletes them.
    pub(super) fn settle_loose(&mut self) -> Result<(), StoreError> {
        for ino in self.all_loose() {
            let Some(mut inode) = self.inode(ino)? else {
                self.forget_loose(ino)?;
                continue;
            };
            let (size, blocks) = self.loose_size(ino)?;
            if !self.fits(blocks) {
                // It stays where it is, and is served from there.
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
            // A log that cannot be cut now is cut later.
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

    /// Undoes what was taken in of a file; it is still there.
    fn leave_loose(&mut self, ino: u64) {
        let _ = self.take_back(0);
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
