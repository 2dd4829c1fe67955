//! Connections for reading, hardened against a malicious file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::damaged;
use crate::change::LayerError;
use crate::store::schema::unknown_version;

/// Tables that are read. A view or a virtual table under one of these names could run forever.
const TABLES: &[&str] = &[
    "fs_config",
    "fs_inode",
    "fs_dentry",
    "fs_data",
    "fs_symlink",
    "fs_whiteout",
    "fs_origin",
    "fs_overlay_config",
    "kv_store",
    "tool_calls",
    "sandbox_dentry",
    "sandbox_whiteout",
    "sandbox_symlink",
    "sandbox_xattr",
    "sandbox_dir",
    "sandbox_origin",
    "sandbox_loose",
    "sandbox_orphan",
];

/// Opens a database for reading, also while it is mounted.
pub fn connect(path: &Path) -> Result<Connection, LayerError> {
    // Check first, because SQLite's message for a missing file says little.
    let io = |source| LayerError::Io { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(io(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    // Open for writing if permitted: only a writing connection removes the files beside the
    // database when it is the last one to close.
    let connection = open(uri(path, ""), OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(checked);
    match connection {
        Err(LayerError::Database(error)) if cannot_share(&error) => read_only(path),
        opened => opened,
    }
}

fn open(path: impl AsRef<Path>, access: OpenFlags) -> Result<Connection, LayerError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON")?;
    Ok(connection)
}

/// Opens a database without write permission, perhaps in a directory without write permission.
fn read_only(path: &Path) -> Result<Connection, LayerError> {
    let shared = open(uri(path, ""), OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(checked);
    match shared {
        // No process has it open and there is no log to read, so the file can be read as immutable.
        Err(LayerError::Database(error)) if cannot_share(&error) && !has_log(path) => {
            checked(open(uri(path, "?immutable=1"), OpenFlags::SQLITE_OPEN_READ_ONLY)?)
        }
        other => other,
    }
}

fn checked(connection: Connection) -> Result<Connection, LayerError> {
    check_schema(&connection)?;
    Ok(connection)
}

fn has_log(path: &Path) -> bool {
    std::fs::symlink_metadata(beside(path, "-wal")).is_ok_and(|meta| meta.len() > 0)
}

/// Returns true when another process has the database locked.
pub(crate) fn is_locked(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Returns the directory for the content of large files while a database is mounted.
pub(crate) fn loose_dir(path: &Path) -> PathBuf {
    beside(path, "-loose")
}

fn cannot_share(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

/// Returns a path as a URI filename (<https://www.sqlite.org/uri.html>), with options.
fn uri(path: &Path, options: &str) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'?' | b'#' | b'%' => uri.extend(format!("%{byte:02x}").bytes()),
            _ => uri.push(*byte),
        }
    }
    uri.extend(options.bytes());
    OsString::from_vec(uri)
}

/// Returns the path of the database with a suffix appended.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Configures a connection for reading or writing.
pub(crate) fn prepare(connection: &Connection) -> Result<(), LayerError> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")?;
    Ok(())
}

/// Checks that all known names are plain tables and that the required ones exist.
pub(crate) fn check_schema(connection: &Connection) -> Result<(), LayerError> {
    let mut found = Vec::new();
    let mut rows = connection.prepare("SELECT name, type, sql FROM sqlite_schema")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let known = TABLES.iter().any(|table| table.eq_ignore_ascii_case(&name));
        let sql = row.get::<_, Option<String>>(2)?.unwrap_or_default();
        if known && (kind != "table" || !sql.to_ascii_uppercase().starts_with("CREATE TABLE")) {
            return Err(damaged(format!("`{name}` is not a plain table")));
        }
        found.push(name);
    }
    match ["fs_inode", "fs_dentry", "fs_data"]
        .iter()
        .find(|table| !found.iter().any(|name| name == *table))
    {
        Some(table) => Err(damaged(format!("not an AgentFS database: table `{table}` is missing"))),
        None => match unknown_version(connection)? {
            Some(found) => Err(LayerError::Newer { found }),
            None => Ok(()),
        },
    }
}
