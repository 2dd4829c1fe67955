//! The writing connection. Changes run immediately inside an open transaction, so that later reads
//! see them. One commit covers many changes.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::pieces;
use super::redo::{Follows, Redo};
use super::room::hold;
use super::run::{execute, last_ino, replay};
use super::statement::{Statement, Value, encode};
use super::{StoreError, beside, parent};

/// Writing connection with its open transaction and logs.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) conn: Connection,
    /// Statements of the open transaction, to replay them after a rollback.
    pending: Vec<u8>,
    /// Bytes of `pending` that are in the redo log.
    logged: usize,
    /// Start of the open transaction.
    since: Option<Instant>,
    /// Opened on first use: most commands need none.
    redo: Option<Redo>,
    follows: Follows,
    wal: Option<Arc<File>>,
    /// True when the directory entries of the logs are on disk.
    named: bool,
    /// True when the logs have their disk space reserved.
    held: bool,
    /// Size in bytes at which a transaction is committed.
    enough: u64,
    path: PathBuf,
}

impl Journal {
    /// Creates a journal on a connection without open transaction; `follows` is the current
    /// database state.
    pub(crate) fn new(conn: Connection, path: PathBuf, follows: Follows, enough: u64) -> Self {
        let (pending, since, redo, wal) = (Vec::new(), None, None, None);
        let (logged, named, held) = (0, false, false);
        Self { conn, pending, logged, since, redo, follows, wal, named, held, enough, path }
    }

    /// Runs one statement inside the open transaction.
    pub(crate) fn run(
        &mut self,
        statement: Statement,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        self.begin()?;
        if let Err(error) = execute(&self.conn, statement, values) {
            // Some errors roll back the whole transaction
            // (<https://www.sqlite.org/lang_transaction.html>).
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

    /// Returns the current position, the argument of [`Self::roll_back`].
    pub(crate) fn mark(&self) -> usize {
        self.pending.len()
    }

    /// Rolls back everything since `mark`, so that no operation is half done.
    pub(crate) fn roll_back(&mut self, mark: usize) -> Result<(), StoreError> {
        if self.pending.len() <= mark {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK")?;
        self.rebuild(mark)
    }

    /// Replays the first `length` bytes of the transaction after SQLite rolled it back.
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

    /// Logs all changes so far, so that they survive the death of this process. Also logs `later`:
    /// statements that the caller runs before the next commit.
    pub(crate) fn keep(&mut self, later: &[u8]) -> io::Result<()> {
        if self.logged == self.pending.len() && later.is_empty() {
            return Ok(());
        }
        let redo = match &mut self.redo {
            Some(redo) => redo,
            none => {
                (self.named, self.held) = (false, false);
                none.insert(Redo::open(&beside(&self.path, "-redo"), self.follows)?)
            }
        };
        redo.append(&self.pending[self.logged..], later)?;
        self.logged = self.pending.len();
        Ok(())
    }

    /// Commits the open transaction. If that fails, the transaction is rebuilt and the next commit
    /// retries.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.since.is_none() {
            return Ok(());
        }
        let done = self.try_commit().or_else(|error| {
            if !self.conn.is_autocommit() {
                self.conn.execute_batch("ROLLBACK")?;
            }
            if pieces::is_full(&error) { self.commit_in_pieces() } else { Err(error.into()) }
        });
        if let Err(error) = done {
            self.rebuild(self.pending.len())?;
            return Err(error);
        }
        self.pending.clear();
        self.pending.shrink_to(usize::try_from(self.enough).unwrap_or(0));
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

    fn try_commit(&mut self) -> rusqlite::Result<()> {
        if self.redone() > 0 {
            let next = (self.follows.epoch + 1).to_string();
            execute(&self.conn, Statement::PutEpoch, &[Value::Text(&next)])?;
        }
        self.conn.execute_batch("COMMIT")
    }

    /// Commits the rolled-back transaction in pieces. Committed pieces need no rebuild.
    fn commit_in_pieces(&mut self) -> Result<(), StoreError> {
        self.keep(&[])?;
        if let Some(redo) = &self.redo {
            redo.sync()?;
        }
        self.sync_names()?;
        let mut done = 0;
        let committed = pieces::commit(&self.conn, &self.pending, self.follows, &mut done);
        self.pending.drain(..done);
        self.logged = self.pending.len();
        Ok(committed?)
    }

    /// Commits and returns the file that must be synced to make it durable.
    pub(crate) fn commit_to_sync(&mut self) -> Result<Arc<File>, StoreError> {
        self.commit()?;
        let wal = self.wal()?;
        self.sync_names()?;
        Ok(wal)
    }

    /// Returns the write-ahead log. SQLite holds no locks on this file, so opening and closing it
    /// is safe.
    fn wal(&mut self) -> io::Result<Arc<File>> {
        if self.wal.is_none() {
            let path = beside(&self.path, "-wal");
            self.wal = Some(Arc::new(File::options().read(true).write(true).open(path)?));
        }
        self.wal.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Syncs the directory, because the logs may be new.
    fn sync_names(&mut self) -> io::Result<()> {
        if !self.named {
            File::open(parent(&self.path))?.sync_all()?;
            self.named = true;
        }
        Ok(())
    }

    /// Reserves disk space for the logs.
    pub(crate) fn hold(&mut self, wal: u64, redo: u64) -> io::Result<()> {
        if self.held {
            return Ok(());
        }
        hold(&*self.wal()?, 0, wal)?;
        self.redo.as_ref().map_or(Ok(()), |log| log.hold(redo))?;
        self.held = true;
        Ok(())
    }

    /// Records that the write-ahead log was truncated, which released its reserved space.
    pub(crate) fn was_cut(&mut self) {
        self.held = false;
    }

    /// Returns true when the open transaction is older than `age`, or large.
    pub(crate) fn is_due(&self, age: Duration) -> bool {
        self.is_large() || self.since.is_some_and(|since| since.elapsed() >= age)
    }

    /// Returns true when a commit is due because of the size of the pending changes.
    pub(crate) fn is_large(&self) -> bool {
        self.pending.len() as u64 > self.enough || self.redone() > 2 * self.enough
    }

    /// Returns the length of the redo log.
    fn redone(&self) -> u64 {
        self.redo.as_ref().map_or(0, Redo::length)
    }

    /// Returns the size of the write-ahead log.
    pub(crate) fn wal_size(&self) -> u64 {
        std::fs::metadata(beside(&self.path, "-wal")).map_or(0, |meta| meta.len())
    }
}
