//! The connection that writes: changes run at once inside an open transaction, so that whatever
//! reads later sees them; the transaction is committed for many of them together.

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
    /// True when the disk knows the names of the files beside the database.
    named: bool,
    /// True when the logs hold the room that they should.
    held: bool,
    /// A transaction is committed when it has as many bytes.
    enough: u64,
    path: PathBuf,
}

impl Journal {
    /// Takes a connection that has no transaction open; `follows` is the database's present state.
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
            none => {
                (self.named, self.held) = (false, false);
                none.insert(Redo::open(&beside(&self.path, "-redo"), self.follows)?)
            }
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

    /// Commits what was rolled back in pieces; those that are done need not be built again.
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

    /// Commits; what it gives back must be synced for the disk to have it.
    pub(crate) fn commit_to_sync(&mut self) -> Result<Arc<File>, StoreError> {
        self.commit()?;
        let wal = self.wal()?;
        self.sync_names()?;
        Ok(wal)
    }

    /// The write-ahead log. Its file has no locks of SQLite's on it, so that opening and closing it
    /// is safe.
    fn wal(&mut self) -> io::Result<Arc<File>> {
        if self.wal.is_none() {
            let path = beside(&self.path, "-wal");
            self.wal = Some(Arc::new(File::options().read(true).write(true).open(path)?));
        }
        self.wal.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Both logs may be new: their names must be on the disk too.
    fn sync_names(&mut self) -> io::Result<()> {
        if !self.named {
            File::open(parent(&self.path))?.sync_all()?;
            self.named = true;
        }
        Ok(())
    }

    /// Makes sure that the logs hold as many bytes of the disk.
    pub(crate) fn hold(&mut self, wal: u64, redo: u64) -> io::Result<()> {
        if self.held {
            return Ok(());
        }
        hold(&*self.wal()?, 0, wal)?;
        self.redo.as_ref().map_or(Ok(()), |log| log.hold(redo))?;
        self.held = true;
        Ok(())
    }

    /// The write-ahead log was cut, and with it what it held.
    pub(crate) fn was_cut(&mut self) {
        self.held = false;
    }

    /// Returns true when the open transaction is older than `age`, or large.
    pub(crate) fn is_due(&self, age: Duration) -> bool {
        self.is_large() || self.since.is_some_and(|since| since.elapsed() >= age)
    }

    /// Returns true when a commit is due for the size of what waits for one.
    pub(crate) fn is_large(&self) -> bool {
        self.pending.len() as u64 > self.enough || self.redone() > 2 * self.enough
    }

    /// Bytes that the redo log has.
    fn redone(&self) -> u64 {
        self.redo.as_ref().map_or(0, Redo::length)
    }

    /// Bytes in the write-ahead log.
    pub(crate) fn wal_size(&self) -> u64 {
        std::fs::metadata(beside(&self.path, "-wal")).map_or(0, |meta| meta.len())
    }
}
