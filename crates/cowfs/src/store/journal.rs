//! The connection that writes: changes run at once inside an open transaction, so that whatever
//! reads later sees them; the transaction is committed for many of them together.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::redo::{Follows, Redo};
use super::statement::{Statement, Value, decode, encode};
use super::{StoreError, beside, parent};

/// A transaction is committed when it holds as many bytes.
const ENOUGH: usize = 4 << 20;

/// Writes to the database.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) conn: Connection,
    /// The statements of the open transaction, so that it can be built again.
    pending: Vec<u8>,
    /// How many of them the redo log has.
    logged: usize,
    /// When the transaction was begun.
    since: Option<Instant>,
    /// Opened when it is first needed: most commands never do.
    redo: Option<Redo>,
    follows: Follows,
    wal: Option<Arc<File>>,
    path: PathBuf,
}

impl Journal {
    /// Takes a connection that has no transaction open; `follows` is the database's present state.
    pub(crate) fn new(conn: Connection, path: PathBuf, follows: Follows) -> Self {
        let (pending, since, redo, wal) = (Vec::new(), None, None, None);
        Self { conn, pending, logged: 0, since, redo, follows, wal, path }
    }

    /// Runs one statement inside the open transaction.
    pub(crate) fn run(
        &mut self,
        statement: Statement,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        self.begin()?;
        if let Err(error) = execute(&self.conn, statement, values) {
            // Some failures end the whole transaction, not only the statement.
            if self.conn.is_autocommit() {
                self.rebuild(self.pending.len())?;
            }
            return Err(error.into());
        }
        encode(&mut self.pending, statement, values);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        if self.since.is_none() {
            self.conn.execute_batch("BEGIN IMMEDIATE")?;
            self.since = Some(Instant::now());
        }
        Ok(())
    }

    /// Where the log stands: the argument of [`Self::take_back`].
    pub(crate) fn mark(&self) -> usize {
        self.pending.len()
    }

    /// Undoes everything since `mark`: half an operation is none.
    pub(crate) fn take_back(&mut self, mark: usize) -> Result<(), StoreError> {
        if self.pending.len() <= mark {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK")?;
        self.rebuild(mark)
    }

    /// Builds the transaction again from its first `length` bytes; SQLite has rolled it back.
    fn rebuild(&mut self, length: usize) -> Result<(), StoreError> {
        self.pending.truncate(length);
        self.logged = self.logged.min(length);
        self.since = None;
        if length == 0 {
            return Ok(());
        }
        self.begin()?;
        replay(&self.conn, &self.pending)?;
        Ok(())
    }

    /// Makes everything so far outlive the death of this process, and `later` too: statements that
    /// are only run before the next commit.
    pub(crate) fn keep(&mut self, later: &[u8]) -> io::Result<()> {
        if self.logged == self.pending.len() && later.is_empty() {
            return Ok(());
        }
        let redo = match &mut self.redo {
            Some(redo) => redo,
            none => none.insert(Redo::open(&beside(&self.path, "-redo"), self.follows)?),
        };
        redo.append(&self.pending[self.logged..], later)?;
        self.logged = self.pending.len();
        Ok(())
    }

    /// Commits, if something is open. When it fails, nothing is lost: the transaction stands again,
    /// and the next commit tries once more.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.since.is_none() {
            return Ok(());
        }
        if let Err(error) = self.try_commit() {
            if !self.conn.is_autocommit() {
                self.conn.execute_batch("ROLLBACK")?;
            }
            self.rebuild(self.pending.len())?;
            return Err(error);
        }
        self.pending.clear();
        self.pending.shrink_to(ENOUGH);
        self.since = None;
        self.logged = 0;
        if self.redone() > 0 {
            self.follows.epoch += 1;
        }
        self.follows.last_ino = last_ino(&self.conn)?;
        if let Some(redo) = &mut self.redo {
            redo.restart(self.follows);
        }
        Ok(())
    }

    fn try_commit(&mut self) -> Result<(), StoreError> {
        if self.redone() > 0 {
            let next = (self.follows.epoch + 1).to_string();
            execute(&self.conn, Statement::PutEpoch, &[Value::Text(&next)])?;
        }
        self.conn.execute_batch("COMMIT")?;
        Ok(())
    }

    /// Commits; what it gives back must be synced for the disk to have it.
    pub(crate) fn commit_to_sync(&mut self) -> Result<Arc<File>, StoreError> {
        self.commit()?;
        if let Some(wal) = &self.wal {
            return Ok(Arc::clone(wal));
        }
        // The log's file has no locks of SQLite's on it, so that opening and closing it is safe. It
        // may be new: its name must be on the disk too.
        let wal = Arc::new(File::open(beside(&self.path, "-wal"))?);
        File::open(parent(&self.path))?.sync_all()?;
        self.wal = Some(Arc::clone(&wal));
        Ok(wal)
    }

    /// Whether the open transaction is older than `age`, or large.
    pub(crate) fn is_due(&self, age: Duration) -> bool {
        self.is_large() || self.since.is_some_and(|since| since.elapsed() >= age)
    }

    /// Whether a commit is due for the size of what waits for one.
    pub(crate) fn is_large(&self) -> bool {
        self.pending.len() > ENOUGH || self.redone() > 4 * ENOUGH as u64
    }

    /// Bytes that the redo log has.
    fn redone(&self) -> u64 {
        self.redo.as_ref().map_or(0, Redo::length)
    }

    /// Gives the room of a redo log back that a commit made obsolete.
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.redo.as_ref().filter(|redo| redo.length() == 0).map_or(Ok(()), Redo::cut)
    }

    /// Gives up the redo log for the room that it takes, and says whether that is any. Until the next
    /// commit, nothing that waits for it outlives this process.
    pub(crate) fn give_log_back(&mut self) -> io::Result<bool> {
        let Some(redo) = self.redo.as_mut().filter(|redo| redo.length() > 0) else {
            return Ok(false);
        };
        redo.restart(self.follows);
        redo.cut()?;
        self.logged = 0;
        Ok(true)
    }

    /// Bytes that wait for a commit.
    pub(crate) fn waiting(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Bytes in the write-ahead log.
    pub(crate) fn wal_size(&self) -> u64 {
        std::fs::metadata(beside(&self.path, "-wal")).map_or(0, |meta| meta.len())
    }
}

fn execute(conn: &Connection, what: Statement, values: &[Value<'_>]) -> rusqlite::Result<()> {
    let mut prepared = conn.prepare_cached(what.sql())?;
    prepared.execute(rusqlite::params_from_iter(values)).map(drop)
}

/// The last inode number that was given out.
pub(crate) fn last_ino(conn: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name='fs_inode'), 0),
        coalesce((SELECT max(ino) FROM fs_inode), 0))";
    conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

/// Runs the statements of a log.
pub(crate) fn replay(conn: &Connection, mut log: &[u8]) -> rusqlite::Result<()> {
    while let Some((statement, values)) = decode(&mut log) {
        execute(conn, statement, &values)?;
    }
    Ok(())
}
