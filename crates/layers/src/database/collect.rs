//! Recovery and garbage collection of a database at rest.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use sandbox_linux::tree::{Kind, Mounts};
use serde::Serialize;

use super::check::OF_AN_INODE;
use super::open::{beside, check_schema, prepare};
use super::rows::tables;
use super::{LayerError, loose_dir};
use crate::store::{Store, StoreError};
use crate::tree::PATIENCE;

/// Result of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Collected {
    /// Number of deleted files without a name.
    pub nameless: usize,
    /// Number of deleted rows without a file.
    pub rows: usize,
    /// Number of deleted files beside the database that had no row.
    pub strays: usize,
    /// Size of everything before, in bytes.
    pub before: u64,
    /// Size of everything after, in bytes.
    pub after: u64,
}

/// Collects garbage. No other process may have the database open.
pub fn collect(path: &Path) -> Result<Collected, StoreError> {
    let before = size(path);
    // Opening deletes orphans; closing moves loose files into the database.
    Store::open(path)?.close()?;
    let flags =
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    prepare(&db).and_then(|()| check_schema(&db)).map_err(store_error)?;
    let (nameless, rows) = sweep(&mut db).map_err(store_error)?;
    db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?;
    let loose = loose(&db)?;
    db.close().map_err(|(_, error)| error)?;
    let strays = strays(path, &loose)?;
    Ok(Collected { nameless, rows, strays, before, after: size(path) })
}

fn store_error(error: LayerError) -> StoreError {
    match error {
        LayerError::Io { source, .. } | LayerError::Moved { source, .. } => StoreError::Io(source),
        LayerError::Damaged { what } => StoreError::Damaged { what },
        LayerError::Newer { found } => StoreError::Newer { found },
        LayerError::Database(error) => StoreError::Database(error),
    }
}

/// Deletes inodes without a name and rows of missing inodes.
fn sweep(db: &mut Connection) -> Result<(usize, usize), LayerError> {
    let tables = tables(db)?;
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let nameless = change.execute(
        "DELETE FROM fs_inode WHERE ino <> 1 AND ino NOT IN (SELECT ino FROM fs_dentry)
         AND ino NOT IN (SELECT ino FROM sandbox_dentry)
         AND ino NOT IN (SELECT delta_ino FROM sandbox_origin)",
        [],
    )?;
    let mut rows = 0;
    for (table, column) in OF_AN_INODE.iter().filter(|(table, _)| tables.contains(*table)) {
        let query = format!("DELETE FROM {table} WHERE {column} NOT IN (SELECT ino FROM fs_inode)");
        rows += change.execute(&query, [])?;
    }
    change.commit()?;
    Ok((nameless, rows))
}

/// Returns the names of files that are still loose because the disk is full.
fn loose(db: &Connection) -> Result<HashSet<OsString>, StoreError> {
    let mut rows = db.prepare("SELECT ino FROM sandbox_loose")?;
    let names = rows.query_map([], |row| Ok(row.get::<_, i64>(0)?.to_string().into()))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Removes files beside the database that have no row. Follows no link at the directory's path.
fn strays(path: &Path, loose: &HashSet<OsString>) -> Result<usize, StoreError> {
    let dir = loose_dir(&path.canonicalize()?);
    let (parent, name) = sandbox_linux::tree::parent(&dir)?;
    let Ok(found) = parent.dir(Path::new(name), Mounts::Stay) else { return Ok(0) };
    let mut entries = found.entries()?;
    entries.retain(|(name, _)| !loose.contains(name));
    for (name, kind) in &entries {
        found.remove(name, *kind)?;
    }
    if loose.is_empty() {
        parent.remove(name, Kind::Dir)?;
    }
    Ok(entries.len())
}

/// Makes everything written so far visible to readers: recovers from a killed mount, or waits for a
/// live one to commit. Does nothing without write permission. Returns true after a recovery.
pub fn settle(path: &Path) -> Result<bool, StoreError> {
    let left = fs::symlink_metadata(beside(path, "-redo")).is_ok_and(|meta| meta.len() > 0)
        || fs::symlink_metadata(loose_dir(path)).is_ok();
    if !left {
        return Ok(false);
    }
    match Store::open(path) {
        Ok(store) => store.close().map(|()| true),
        Err(StoreError::InUse { .. }) => {
            std::thread::sleep(PATIENCE * 3);
            Ok(false)
        }
        Err(StoreError::Io(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns the size of the database with all files beside it.
fn size(path: &Path) -> u64 {
    let file = |path: &Path| fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    let loose = fs::read_dir(loose_dir(path)).into_iter().flatten().flatten();
    let loose: u64 = loose.map(|entry| file(&entry.path())).sum();
    let beside = ["-wal", "-redo"].map(|suffix| file(&beside(path, suffix)));
    file(path) + loose + beside.iter().sum::<u64>()
}
