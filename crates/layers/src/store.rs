//! Writer of an AgentFS database: AgentFS's tables plus a few of our own.
//!
//! A [`Store`] is the only writer of a database. Readers open the file with SQLite at any time:
//! every commit is consistent, and a mounted database commits every few milliseconds.

pub mod schema;
mod statement;
mod room;
mod redo;
mod run;
mod pieces;
mod journal;
mod inode;
mod names;
mod whiteout;
mod data;
mod loose;
mod copy;
mod xattr;
mod recover;
mod open;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use sandbox_linux::lock::LockFile;
use sandbox_protocol::Hint;
use thiserror::Error;

pub(crate) use inode::{BASE, LOWER};
pub use inode::{Inode, Kind, Time};
pub(crate) use names::Rest;

use journal::Journal;
use loose::Loose;
use room::Room;

/// AgentFS database open for writing. Only one can be open per file.
#[derive(Debug)]
pub struct Store {
    journal: Journal,
    chunk_size: usize,
    base: Option<PathBuf>,
    whiteouts: whiteout::Form,
    loose: Loose,
    copies: copy::Copies,
    next_ino: u64,
    /// Tables that are usually empty and need no query then.
    any: Rare,
    path: PathBuf,
    room: Room,
    /// Lock on the database file. Dropped after the connection: closing another descriptor of the
    /// file would release SQLite's POSIX locks (fcntl(2)).
    lock: LockFile,
}

/// Usually empty tables that have rows in this database.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
struct Rare {
    xattrs: bool,
    redirects: bool,
    raw_names: bool,
    origins: bool,
}

impl Store {
    /// Returns the directory or database that this one is a layer over.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an inode number that has never been used.
    pub(crate) fn new_ino(&mut self) -> u64 {
        self.next_ino += 1;
        self.next_ino - 1
    }

    /// Logs all changes so far, so that they survive the death of this process. Also logs these
    /// inodes, which the caller writes before the next commit.
    pub(crate) fn keep(&mut self, inodes: &[(u64, Inode)]) -> Result<(), StoreError> {
        let mut later = Vec::with_capacity(inodes.len() * 160);
        for (ino, inode) in inodes {
            inode::log(&mut later, *ino, inode);
        }
        self.loose.sync_replacements()?;
        Ok(self.journal.keep(&later)?)
    }

    /// Returns true when a commit is due because of the size of the pending changes.
    pub(crate) fn is_large(&self) -> bool {
        self.journal.is_large()
    }

    /// Commits the open transaction.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.loose.sync_replacements()?;
        self.journal.commit()
    }

    /// Returns true when deleted files wait for a commit that is on disk.
    pub(crate) fn has_doomed(&self) -> bool {
        self.loose.has_doomed()
    }

    /// Commits the open transaction and waits for the disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.commit_to_sync()?.sync_data()?;
        self.loose.bury();
        Ok(())
    }

    /// Commits the open transaction and returns the file that must be synced to make it durable.
    /// The caller can sync it without blocking other requests.
    pub(crate) fn commit_to_sync(&mut self) -> Result<Arc<File>, StoreError> {
        self.loose.sync_new()?;
        self.commit()?;
        self.journal.commit_to_sync()
    }

    pub(crate) fn is_due(&self, age: Duration) -> bool {
        self.journal.is_due(age)
    }

    pub(crate) fn mark(&self) -> usize {
        self.journal.mark()
    }

    pub(crate) fn roll_back(&mut self, mark: usize) -> Result<(), StoreError> {
        self.journal.roll_back(mark)
    }

    /// Returns the free and the total bytes of the disk.
    fn disk(&self) -> Option<(u64, u64)> {
        disk(&self.path)
    }

    /// Checkpoints and truncates the write-ahead log when it has grown large. The limit is lower on
    /// a small disk, because the database needs free space to absorb the log.
    pub(crate) fn checkpoint(&mut self, limit: u64) -> Result<(), StoreError> {
        if self.journal.wal_size() <= limit.min(self.room.free() / 8) {
            return Ok(());
        }
        self.commit()?;
        if self.room.is_short() {
            // Blocks released on a full disk could not be allocated again; the next commit
            // truncates the log.
            return self.pragma("wal_checkpoint(RESTART)");
        }
        self.journal.was_cut();
        self.pragma("wal_checkpoint(TRUNCATE)")
    }

    fn pragma(&self, pragma: &str) -> Result<(), StoreError> {
        let mut query = self.journal.conn.prepare(&format!("PRAGMA {pragma}"))?;
        let mut rows = query.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}

/// Returns the free and the total bytes of the disk that holds a file.
fn disk(path: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(parent(path)).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

/// Returns the parent directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the path of the database with a suffix appended.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Hint for a database with a newer schema.
pub(crate) const NEWER: &str =
    "use the program that created it, or a newer agent-sandbox; nothing was changed";

/// Error of the store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file already exists.
    #[error("`{}` already exists", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// Another process has it open.
    #[error("`{}` is in use", path.display())]
    InUse {
        /// Path of the database.
        path: PathBuf,
    },
    /// The file is not an AgentFS database, or an unknown variant of one.
    #[error("`{}` is not an AgentFS database: {what}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        what: String,
    },
    /// The schema version is newer than this program.
    #[error("the database has schema version `{found}`; this program supports {}", schema::VERSION)]
    Newer {
        /// Version of the database.
        found: String,
    },
    /// The stored data is inconsistent, by damage or by intent.
    #[error("the database is damaged: {what}")]
    Damaged {
        /// Inconsistency that was found.
        what: String,
    },
    /// SQLite returned an error.
    #[error("SQLite error")]
    Database(#[from] rusqlite::Error),
    /// A file system operation failed.
    #[error("cannot access the database files")]
    Io(#[from] io::Error),
}

impl StoreError {
    /// Returns the error number for a program inside the mount.
    pub(crate) fn errno(&self) -> Errno {
        use rusqlite::ErrorCode;
        match self {
            Self::Database(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Errno::NOSPC,
                Some(ErrorCode::ReadOnly) => Errno::ROFS,
                Some(ErrorCode::TooBig) => Errno::FBIG,
                _ => Errno::IO,
            },
            Self::Io(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            _ => Errno::IO,
        }
    }
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => Some("choose another name, or remove it first".into()),
            Self::InUse { .. } => {
                Some("it is mounted, or another command is using it; unmount it first".into())
            }
            Self::Newer { .. } => Some(NEWER.into()),
            Self::Database(error) if is_full(error) => Some(
                "the disk is full, and even opening a database needs some space; free some space"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// Returns true when the disk is full, also for the shared-memory file of SQLite's WAL mode.
fn is_full(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_FULL | SQLITE_IOERR_SHMSIZE))
}
