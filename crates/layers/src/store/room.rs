//! Room ahead. Loose files and other programs fill the disk without asking, and even deleting needs
//! room: in the logs, and in the database. So both logs hold more of the disk than they use. Where
//! the disk is short, the database has empty pages too, and what is accepted goes there: moving the
//! write-ahead log into it never needs the disk. When there are none left and no more to be had, the
//! disk is full: nothing that grows is accepted, and everything else goes on.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Store, StoreError};

/// How room is measured on a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What may wait for a commit, in bytes.
    unit: u64,
    /// Free bytes, when that was last looked at.
    free: u64,
}

/// Units for the write-ahead log: what does not fit is committed in pieces.
const WAL: u64 = 2;
/// Units for the redo log: it is full when half of it is, so that it can always be completed.
const REDO: u64 = 4;
/// Units of empty pages in the database: pages are not filled, so that what waits may need several.
const SPARE: u64 = 4;
/// A disk is short of room when it has fewer free units.
const SHORT: u64 = 128;

impl Room {
    /// For a disk with so many free bytes, and so many in all.
    pub(super) fn on(disk: Option<(u64, u64)>) -> Self {
        let (free, all) = disk.unwrap_or((0, u64::MAX));
        Self { unit: (all / 64).clamp(128 << 10, 1 << 20), free }
    }

    pub(super) fn free(self) -> u64 {
        self.free
    }

    /// Returns true when the disk may be full soon.
    pub(super) fn is_short(self) -> bool {
        self.free < SHORT * self.unit
    }

    pub(super) fn unit(self) -> u64 {
        self.unit
    }

    /// What the write-ahead log holds.
    pub(super) fn wal(self) -> u64 {
        WAL * self.unit
    }
}

impl Store {
    /// As many bytes may be accepted between two questions for room.
    pub(crate) fn enough(&self) -> u64 {
        self.room.unit
    }

    /// Returns true when there is room for more, apart from what was accepted so far. Nothing may be open.
    pub(crate) fn has_room(&mut self) -> bool {
        let logs = self.journal.hold(self.room.wal(), REDO * self.room.unit);
        logs.is_ok() && (!self.is_short() || self.make_spare().unwrap_or(false))
    }

    /// Returns true when the disk may be full soon.
    pub(crate) fn is_short(&mut self) -> bool {
        self.look();
        self.room.is_short()
    }

    /// Looks how much of the disk is free.
    fn look(&mut self) -> u64 {
        self.room.free = self.disk().map_or(0, |(free, _)| free);
        self.room.free
    }

    /// Makes empty pages, unless there are enough: whether there are now.
    fn make_spare(&mut self) -> Result<bool, StoreError> {
        let least = SPARE * self.room.unit;
        if self.spare()? >= least {
            return Ok(true);
        }
        // Full ones lead to empty ones: the more at once, the fewer are written twice.
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

    /// Fills pages with nothing.
    fn fill(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.pragma("wal_checkpoint(RESTART)")?;
        // From here on it cannot fail half-way.
        let end = self.lock.file().metadata()?.len();
        if self.look() < 2 * bytes {
            return Err(StoreError::Io(Errno::NOSPC.into()));
        }
        hold(self.lock.file(), end, end + bytes + bytes / 4)?;
        let sql = "INSERT INTO sandbox_symlink (ino, target)
            SELECT min(0, coalesce(min(ino), 0)) - 1, zeroblob(?1) FROM sandbox_symlink";
        self.journal.conn.execute(sql, [bytes.cast_signed()])?;
        self.pragma("wal_checkpoint(RESTART)")
    }

    /// Makes filled pages empty ones.
    pub(super) fn drop_filling(&self) -> Result<(), StoreError> {
        Ok(self.journal.conn.execute_batch("DELETE FROM sandbox_symlink WHERE ino < 0")?)
    }

    /// Bytes of the database that hold nothing.
    fn spare(&self) -> Result<u64, StoreError> {
        let sql = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size";
        let mut query = self.journal.conn.prepare_cached(sql)?;
        let bytes: i64 = query.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Returns true when a loose file can be taken in and leave room for all else.
    pub(super) fn fits(&mut self, bytes: u64) -> bool {
        let whole = bytes + bytes / 16 + (WAL + REDO + 2 * SPARE) * self.room.unit;
        self.look() > whole
    }
}

/// Lets a file hold the disk from one place to another, whatever its length is. Where that is
/// unknown, nothing is promised.
pub(super) fn hold(file: &File, from: u64, to: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
