//! Room ahead. Loose files and other programs fill the disk without asking, and even deleting needs
//! room: in the logs, and in the database. So while a database is written to, its files hold more of
//! the disk than they use, and what was accepted always finds its place in them. When there is no
//! more to hold, the disk is full: nothing that grows is accepted, and everything else goes on.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Store, StoreError};

/// The room that a database holds.
#[derive(Debug)]
pub(super) struct Room {
    /// What all room is measured in: what may wait for a commit.
    unit: u64,
    /// Up to here the database's file holds the disk.
    end: u64,
}

/// Units for the database: twice what waits grows to in pages, which are not filled, and that twice.
const DATABASE: u64 = 4;
/// Units for the write-ahead log: what does not fit is committed in pieces.
const WAL: u64 = 2;
/// Units for the redo log: it is full when half of it is, so that it can always be completed.
const REDO: u64 = 4;

impl Room {
    /// For a disk with so many bytes.
    pub(super) fn on(disk: Option<(u64, u64)>) -> Self {
        let all = disk.map_or(u64::MAX, |(_, all)| all);
        Self { unit: (all / 64).clamp(128 << 10, 1 << 20), end: 0 }
    }

    pub(super) fn unit(&self) -> u64 {
        self.unit
    }

    /// What the write-ahead log holds.
    pub(super) fn wal(&self) -> u64 {
        WAL * self.unit
    }
}

impl Store {
    /// As many bytes may be accepted between two questions for room.
    pub(crate) fn enough(&self) -> u64 {
        self.room.unit
    }

    /// Whether there is room for more, apart from what was accepted so far.
    pub(crate) fn has_room(&mut self) -> bool {
        let (wal, redo) = (self.room.wal(), REDO * self.room.unit);
        let logs = self.journal.hold(wal, redo).is_ok();
        logs && self.pages().is_ok_and(|(used, all)| {
            used + DATABASE / 2 * self.room.unit <= self.room.end || self.hold(all).is_ok()
        })
    }

    /// Holds room behind the `all` bytes that the database has, or will have.
    fn hold(&mut self, all: u64) -> io::Result<()> {
        let (from, to) = (self.room.end, all + DATABASE * self.room.unit);
        // Trying costs more than looking.
        if self.disk().is_some_and(|(free, _)| free < to.saturating_sub(from.max(all))) {
            return Err(Errno::NOSPC.into());
        }
        hold(&self.lock, from, to)?;
        self.room.end = to.max(from);
        Ok(())
    }

    /// The database's file was cut to what it has: so was what it held.
    pub(super) fn hold_again(&mut self) {
        self.room.end = self.lock.metadata().map_or(0, |meta| meta.len());
        let _ = self.has_room();
    }

    /// Bytes of the database that hold something, and all of them.
    fn pages(&self) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT (page_count - freelist_count) * page_size, page_count * page_size
            FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        let mut query = self.journal.conn.prepare_cached(sql)?;
        let bytes = |row: &rusqlite::Row<'_>, column: usize| {
            Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
        };
        Ok(query.query_row([], |row| Ok((bytes(row, 0)?, bytes(row, 1)?)))?)
    }

    /// Whether a loose file can be taken in and leave room for all else.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        let whole = bytes + bytes / 16 + (DATABASE + WAL + REDO) * self.room.unit;
        self.disk().is_none_or(|(free, _)| free > whole)
    }
}

/// Lets a file hold the disk from one place to another, whatever its length is. Where that is
/// unknown, nothing is promised.
pub(super) fn hold(file: &File, from: u64, to: u64) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
