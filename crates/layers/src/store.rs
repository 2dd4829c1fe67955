//! The AgentFS database: its tables as that tool writes them, and the few of ours beside them.
//!
//! A [`Store`] is the one writer of a database. Whoever only reads opens the file with SQLite at any
//! time: every commit is whole, and a mounted database is committed every few milliseconds.

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

/// An AgentFS database, open for writing. There is at most one per file.
#[derive(Debug)]
pub struct Store {
    journal: Journal,
    chunk_size: usize,
    base: Option<PathBuf>,
    whiteouts: whiteout::Form,
    loose: Loose,
    copies: copy::Copies,
    next_ino: u64,
    /// Rare tables that hold anything: most databases never ask them.
    any: Rare,
    path: PathBuf,
    room: Room,
    /// The database's file. Held until the connection is gone: closing a second descriptor of it
    /// would drop SQLite's own locks on it.
    lock: LockFile,
}

/// Which of the tables that are mostly empty are not.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
struct Rare {
    xattrs: bool,
    redirects: bool,
    raw_names: bool,
    origins: bool,
}

impl Store {
    /// The directory that the database is a layer over, if it is one.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    /// Where the database lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that no inode has had.
    pub(crate) fn new_ino(&mut self) -> u64 {
        self.next_ino += 1;
        self.next_ino - 1
    }

    /// Makes everything so far outlive the death of this process; also these inodes, which are to
    /// be put before the next commit.
    pub(crate) fn keep(&mut self, inodes: &[(u64, Inode)]) -> Result<(), StoreError> {
        let mut later = Vec::with_capacity(inodes.len() * 160);
        for (ino, inode) in inodes {
            inode::log(&mut later, *ino, inode);
        }
        self.loose.sync_replacements()?;
        Ok(self.journal.keep(&later)?)
    }

    /// Returns true when a commit is due for the size of what waits for one.
    pub(crate) fn is_large(&self) -> bool {
        self.journal.is_large()
    }

    /// Commits what is open.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.loose.sync_replacements()?;
        self.journal.commit()
    }

    /// Returns true when deleted files wait for a commit that has reached the disk.
    pub(crate) fn has_doomed(&self) -> bool {
        self.loose.has_doomed()
    }

    /// Commits what is open and waits for the disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.commit_to_sync()?.sync_data()?;
        self.loose.bury();
        Ok(())
    }

    /// Commits what is open. When the file that it gives back is synced, the disk has it; that can
    /// be waited for without holding anything up.
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

    pub(crate) fn take_back(&mut self, mark: usize) -> Result<(), StoreError> {
        self.journal.take_back(mark)
    }

    /// Free and all bytes of the disk.
    fn disk(&self) -> Option<(u64, u64)> {
        disk(&self.path)
    }

    /// Moves the write-ahead log into the database when it has grown large, and cuts it. On a small
    /// disk that is earlier: the database must have room to take it.
    pub(crate) fn checkpoint(&mut self, limit: u64) -> Result<(), StoreError> {
        if self.journal.wal_size() <= limit.min(self.room.free() / 8) {
            return Ok(());
        }
        self.commit()?;
        if self.room.is_short() {
            // What it holds of a full disk it would not get again; the next commit cuts it to that.
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

/// Free and all bytes of the disk that a file lies on.
fn disk(path: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(parent(path)).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file beside a database whose name ends differently.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Hint for a database of a newer version.
pub(crate) const NEWER: &str =
    "use the program that made it, or a newer agent-sandbox; nothing in it was changed";

/// Why a database cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is one already.
    #[error("`{}` exists", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// Somebody else writes to it.
    #[error("`{}` is in use", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// It is no AgentFS database, or one of an unknown make.
    #[error("`{}` is no AgentFS database: {what}", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// A newer version made it.
    #[error(
        "the database has tables of version `{found}`, and this program knows {}",
        schema::VERSION
    )]
    Newer {
        /// Version that was found.
        found: String,
    },
    /// What is stored makes no sense: damaged, or made to confuse.
    #[error("the database is damaged: {what}")]
    Damaged {
        /// What was found.
        what: String,
    },
    /// The database refused.
    #[error("the database failed")]
    Database(#[from] rusqlite::Error),
    /// The file system refused.
    #[error("cannot reach the database's files")]
    Io(#[from] io::Error),
}

impl StoreError {
    /// The error number that a program inside the mount gets.
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
                Some("it is mounted, or another command works on it: unmount it first".into())
            }
            Self::Newer { .. } => Some(NEWER.into()),
            Self::Database(error) if is_full(error) => Some(
                "the disk is full, and a database needs a little of it even to be opened: make room"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// Returns true when the disk has no room: also for the file that those share who have a database open.
fn is_full(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_FULL | SQLITE_IOERR_SHMSIZE))
}
