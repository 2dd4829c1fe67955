//! Execution of statements on a connection.

use rusqlite::Connection;

use super::statement::{Statement, Value, decode};

/// Runs one statement.
pub(super) fn execute(
    conn: &Connection,
    what: Statement,
    values: &[Value<'_>],
) -> rusqlite::Result<()> {
    let mut prepared = conn.prepare_cached(what.sql())?;
    prepared.execute(rusqlite::params_from_iter(values)).map(drop)
}

/// Returns the highest inode number ever used.
pub(super) fn last_ino(conn: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name='fs_inode'), 0),
        coalesce((SELECT max(ino) FROM fs_inode), 0))";
    conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

/// Runs the statements of a log.
pub(super) fn replay(conn: &Connection, mut log: &[u8]) -> rusqlite::Result<()> {
    while let Some((statement, values)) = decode(&mut log) {
        execute(conn, statement, &values)?;
    }
    Ok(())
}
