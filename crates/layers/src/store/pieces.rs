//! Commits in pieces, for a disk that cannot hold the whole write-ahead log. The log is
//! checkpointed after each piece. Until the last piece the redo log, which has all changes, stays
//! valid: replaying it over committed pieces gives the same result.

use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::redo::Follows;
use super::run::{execute, last_ino, replay};
use super::statement::{Statement, Value, decode};

/// Length of the shortest statement.
const SHORTEST: usize = 2;

/// Commits the statements of `log`, which the redo log also has, on top of state `follows`. Sets
/// `done` to the number of bytes committed.
pub(super) fn commit(
    conn: &Connection,
    log: &[u8],
    follows: Follows,
    done: &mut usize,
) -> rusqlite::Result<()> {
    let mut length = log.len();
    loop {
        let end = *done + piece(&log[*done..], length);
        match commit_one(conn, &log[*done..end], follows, end == log.len()) {
            Ok(()) => *done = end,
            Err(error) if is_full(&error) && length > SHORTEST => length /= 2,
            Err(error) => return Err(error),
        }
        if *done == log.len() {
            return Ok(());
        }
        checkpoint(conn)?;
    }
}

/// Returns the length of the leading statements that make up about `length` bytes.
fn piece(log: &[u8], length: usize) -> usize {
    let mut rest = log;
    while log.len() - rest.len() < length && decode(&mut rest).is_some() {}
    log.len() - rest.len()
}

fn commit_one(
    conn: &Connection,
    piece: &[u8],
    follows: Follows,
    is_last: bool,
) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let Follows { epoch, last_ino: before } = follows;
    let done = replay(conn, piece).and_then(|()| {
        if is_last {
            execute(conn, Statement::PutEpoch, &[Value::Text(&(epoch + 1).to_string())])?;
        } else {
            let part = format!("{epoch} {before} {}", last_ino(conn)?);
            execute(conn, Statement::PutPart, &[Value::Text(&part)])?;
        }
        conn.execute_batch("COMMIT")
    });
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

/// Checkpoints the log, so that the next commit starts at its beginning. Keeps its file size.
fn checkpoint(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
}

/// Returns the last inode number before a redo log that was committed only in part.
fn last_ino_before(conn: &Connection, epoch: u64) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT value FROM fs_config WHERE key='sandbox_part'";
    let part: Option<String> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
    let numbers: Vec<u64> =
        part.unwrap_or_default().split(' ').map_while(|word| word.parse().ok()).collect();
    Ok(match numbers[..] {
        [of, before, after] if of == epoch && after == last_ino(conn)? => Some(before),
        _ => None,
    })
}

/// Returns the state that a matching redo log follows.
pub(super) fn follows(conn: &Connection, epoch: u64) -> rusqlite::Result<Follows> {
    let last_ino = match last_ino_before(conn, epoch)? {
        Some(before) => before,
        None => last_ino(conn)?,
    };
    Ok(Follows { epoch, last_ino })
}

pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;
    use crate::store::{Store, beside, redo};

    const NAMES: [&str; 4] = ["one", "two", "three", "four"];

    /// A database that was killed with changes in its redo log.
    fn killed(path: &Path) {
        let mut store = Store::create(path, None).unwrap();
        let root = store.inode(1).unwrap().unwrap();
        for name in NAMES {
            let ino = store.new_ino();
            store.put_inode(ino, &root).unwrap();
            store.put_name(1, OsStr::new(name), ino).unwrap();
        }
        store.keep(&[]).unwrap();
    }

    fn count(conn: &Connection) -> u32 {
        conn.query_row("SELECT count(*) FROM fs_dentry", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_commit_killed_between_two_pieces_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        for length in (1..2000).step_by(150) {
            let path = dir.path().join(length.to_string());
            killed(&path);
            let conn = Connection::open(&path).unwrap();
            let follows = follows(&conn, 0).unwrap();
            let log = redo::read(&beside(&path, "-redo"), follows).unwrap();
            let end = piece(&log, length);
            if end == log.len() {
                assert!(length > log.len() / 2, "{length}");
                return;
            }
            commit_one(&conn, &log[..end], follows, false).unwrap();
            assert!(count(&conn) < 4);
            drop(conn);
            let store = Store::open(&path).unwrap();
            for name in NAMES {
                assert!(store.find(1, OsStr::new(name)).unwrap().is_some(), "{name} at {length}");
            }
        }
        panic!("the log is longer than every tested length");
    }
}
