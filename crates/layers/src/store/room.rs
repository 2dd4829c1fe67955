//! Disk space reserved in advance. Loose files and other programs fill the disk at any time, and
//! even a deletion needs space, in the logs and in the database. So both logs reserve more space
//! than they use. On a nearly full disk the database also keeps free pages for accepted changes, so
//! that a checkpoint needs no new blocks. Once those run out and no more can be allocated, growing
//! operations fail with ENOSPC and all others still work.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Store, StoreError};

/// Reservation sizes for a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Maximum bytes of uncommitted changes.
    unit: u64,
    /// Free bytes at the last check.
    free: u64,
}

/// Units for the write-ahead log. A larger commit is split into pieces.
const WAL: u64 = 2;
/// Units for the redo log. It counts as full at half, so that a commit can always complete.
const REDO: u64 = 4;
/// Units of free pages in the database, with a margin because pages are not filled completely.
const SPARE: u64 = 4;
/// Free units below which a disk is nearly full.
const SHORT: u64 = 128;

impl Room {
    /// Creates the sizes for a disk with these free and total bytes.
    pub(super) fn on(disk: Option<(u64, u64)>) -> Self {
        let (free, all) = disk.unwrap_or((0, u64::MAX));
        Self { unit: (all / 64).clamp(128 << 10, 1 << 20), free }
    }

    pub(super) fn free(self) -> u64 {
        self.free
    }

    /// Returns true when the disk is nearly full.
    pub(super) fn is_short(self) -> bool {
        self.free < SHORT * self.unit
    }

    pub(super) fn unit(self) -> u64 {
        self.unit
    }

    /// Returns the bytes reserved for the write-ahead log.
    pub(super) fn wal(self) -> u64 {
        WAL * self.unit
    }
}

impl Store {
    /// Returns how many bytes may be accepted between two calls of [`Self::has_room`].
    pub(crate) fn enough(&self) -> u64 {
        self.room.unit
    }

    /// Returns true when there is space for more changes. No transaction may be open.
    pub(crate) fn has_room(&mut self) -> bool {
        let logs = self.journal.hold(self.room.wal(), REDO * self.room.unit);
        logs.is_ok() && (!self.is_short() || self.make_spare().unwrap_or(false))
    }

    /// Returns true when the disk is nearly full.
    pub(crate) fn is_short(&mut self) -> bool {
        self.measure();
        self.room.is_short()
    }

    /// Updates and returns the free bytes of the disk.
    fn measure(&mut self) -> u64 {
        self.room.free = self.disk().map_or(0, |(free, _)| free);
        self.room.free
    }

    /// Adds free pages unless there are enough. Returns true when there are enough now.
    fn make_spare(&mut self) -> Result<bool, StoreError> {
        let least = SPARE * self.room.unit;
        if self.spare()? >= least {
            return Ok(true);
        }
        // Freeing pages takes some pages as well, so larger steps write fewer of them twice.
        let free = self.room.free;
        let wanted = least + (free / 8).clamp(self.room.unit, 16 * self.room.unit);
        let mut made = 0;
        let failed = loop {
            let step = (free / 4).clamp(self.room.unit, wanted);
            match self.fill(step) {
                Ok(()) if made + step < wanted => made += step,
                done => break done.err(),
            }
        };
        self.pragma("wal_checkpoint(RESTART)")?;
        self.drop_filling()?;
        match failed {
            Some(error) if error.errno() != Errno::NOSPC => Err(error),
            _ => Ok(self.spare()? >= least),
        }
    }

    /// Fills new pages with zeros.
    fn fill(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.pragma("wal_checkpoint(RESTART)")?;
        // From here on the insertion cannot run out of space.
        let end = self.lock.file().metadata()?.len();
        if self.measure() < 2 * bytes {
            return Err(StoreError::Io(Errno::NOSPC.into()));
        }
        hold(self.lock.file(), end, end + bytes + bytes / 4)?;
        let sql = "INSERT INTO sandbox_symlink (ino, target)
            SELECT min(0, coalesce(min(ino), 0)) - 1, zeroblob(?1) FROM sandbox_symlink";
        self.journal.conn.execute(sql, [bytes.cast_signed()])?;
        self.pragma("wal_checkpoint(RESTART)")
    }

    /// Deletes the filling, which leaves free pages.
    pub(super) fn drop_filling(&self) -> Result<(), StoreError> {
        Ok(self.journal.conn.execute_batch("DELETE FROM sandbox_symlink WHERE ino < 0")?)
    }

    /// Returns the bytes of free pages in the database.
    fn spare(&self) -> Result<u64, StoreError> {
        let sql = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size";
        let mut query = self.journal.conn.prepare_cached(sql)?;
        let bytes: i64 = query.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Returns true when a loose file fits into the database with space left for everything else.
    pub(super) fn fits(&mut self, bytes: u64) -> bool {
        let whole = bytes + bytes / 16 + (WAL + REDO + 2 * SPARE) * self.room.unit;
        self.measure() > whole
    }
}

/// Reserves disk space for a range of a file without changing its length (fallocate(2)). Does
/// nothing on file systems without support.
pub(super) fn hold(file: &File, from: u64, to: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
