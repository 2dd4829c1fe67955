//! The tables. What AgentFS 0.4 knows has its names and shapes; what it cannot hold is ours,
//! under the prefix `sandbox_`, and other tools may ignore it.

use rusqlite::{Connection, OptionalExtension};

/// The version of the tables that this program knows, as `fs_config` has it.
pub const VERSION: &str = "0.4";

/// The version of a database's tables, if it is not known here. Nothing may be written to such a
/// database, and what is read from it may mean something else.
pub(crate) fn unknown_version(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type='table' AND name='fs_config'";
    if !conn.prepare(sql)?.exists([])? {
        return Ok(None);
    }
    let sql = "SELECT CAST(value AS TEXT) FROM fs_config WHERE key='schema_version'";
    let found: Option<Option<String>> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(found.map(Option::unwrap_or_default).filter(|found| parts(found) > parts(VERSION)))
}

/// Major and minor number; what is neither counts as the highest.
fn parts(version: &str) -> (u32, u32) {
    let mut parts = version.trim().split('.').map(|part| part.parse().unwrap_or(u32::MAX));
    (parts.next().unwrap_or(u32::MAX), parts.next().unwrap_or(0))
}

/// How a new file is set up, before its first table.
///
/// Pages of 1024 bytes: a row a little longer than half a page stands alone in it, and takes twice
/// its length. In pages of 8192 bytes those are the files of 4096 bytes, which are many.
///
/// `auto_vacuum` stays off: AgentFS's own engine opens a database that has it, reports every write
/// as done, and keeps none of them. Space is given back by `VACUUM`, at unmount and by `fs gc`.
pub const SETTINGS: &str = "
PRAGMA page_size = 1024;
PRAGMA auto_vacuum = NONE;
PRAGMA journal_mode = WAL;
";

/// Ours to write into a new database: the shape that the tool itself writes, which differs from
/// its specification (two columns in `fs_whiteout`, `fs_overlay_config`, `schema_version`).
pub(crate) const THEIRS: &str = "
CREATE TABLE fs_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE fs_inode (
  ino INTEGER PRIMARY KEY AUTOINCREMENT,
  mode INTEGER NOT NULL,
  nlink INTEGER NOT NULL DEFAULT 0,
  uid INTEGER NOT NULL DEFAULT 0,
  gid INTEGER NOT NULL DEFAULT 0,
  size INTEGER NOT NULL DEFAULT 0,
  atime INTEGER NOT NULL,
  mtime INTEGER NOT NULL,
  ctime INTEGER NOT NULL,
  rdev INTEGER NOT NULL DEFAULT 0,
  atime_nsec INTEGER NOT NULL DEFAULT 0,
  mtime_nsec INTEGER NOT NULL DEFAULT 0,
  ctime_nsec INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE fs_dentry (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parent_ino INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  UNIQUE(parent_ino, name)
);
CREATE TABLE fs_data (
  ino INTEGER NOT NULL,
  chunk_index INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (ino, chunk_index)
);
CREATE TABLE fs_symlink (ino INTEGER PRIMARY KEY, target TEXT NOT NULL);
CREATE TABLE fs_whiteout (path TEXT PRIMARY KEY, created_at INTEGER NOT NULL);
CREATE TABLE fs_origin (delta_ino INTEGER PRIMARY KEY, base_ino INTEGER NOT NULL);
CREATE TABLE fs_overlay_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE kv_store (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  created_at INTEGER DEFAULT (unixepoch()),
  updated_at INTEGER DEFAULT (unixepoch())
);
CREATE INDEX idx_kv_store_created_at ON kv_store(created_at);
CREATE TABLE tool_calls (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parameters TEXT,
  result TEXT,
  error TEXT,
  status TEXT NOT NULL DEFAULT 'pending',
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  duration_ms INTEGER
);
CREATE INDEX idx_tool_calls_name ON tool_calls(name);
CREATE INDEX idx_tool_calls_started_at ON tool_calls(started_at);
";

/// What theirs cannot hold.
///
/// - `sandbox_dentry`: names that are not UTF-8, which `fs_dentry` would refuse.
/// - `sandbox_whiteout`: whiteouts whose path is not UTF-8. Paths of whiteouts are paths in the base.
/// - `sandbox_symlink`: targets that are not UTF-8.
/// - `sandbox_xattr`: extended attributes.
/// - `sandbox_dir`: where in the base a directory's other entries come from, if not from the
///   directory of its name below where its parent's come from: NULL for an opaque directory, else
///   the path it had in the base before it was moved.
/// - `sandbox_origin`: from the base's inode to ours, so that all names of a hard link stay one
///   file; and what the base's file looked like when it was copied up.
/// - `sandbox_loose`: files whose content lies beside the database, in `ID.db-loose/INO`, while it
///   is mounted; they are taken in at unmount.
/// - `sandbox_unlinked`: how many names a file of the base with several has lost while it was not
///   copied up; only their count is kept, the names themselves are whiteouts.
/// - `sandbox_orphan`: inodes without a name that were open; deleted at the next mount.
pub const OURS: &str = "
CREATE TABLE IF NOT EXISTS sandbox_dentry (
  parent_ino INTEGER NOT NULL, name BLOB NOT NULL, ino INTEGER NOT NULL,
  PRIMARY KEY (parent_ino, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sandbox_whiteout (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sandbox_symlink (ino INTEGER PRIMARY KEY, target BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS sandbox_xattr (
  ino INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (ino, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sandbox_dir (ino INTEGER PRIMARY KEY, base BLOB);
CREATE TABLE IF NOT EXISTS sandbox_origin (
  base_ino INTEGER PRIMARY KEY, delta_ino INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, mtime_nsec INTEGER NOT NULL,
  ctime INTEGER NOT NULL, ctime_nsec INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS sandbox_loose (ino INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS sandbox_unlinked (base_ino INTEGER PRIMARY KEY, names INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sandbox_orphan (ino INTEGER PRIMARY KEY);
";
