//! Schema. Tables of AgentFS 0.4 keep its names and shapes. Data that they cannot hold is in our
//! own tables with the prefix `sandbox_`, which other tools may ignore.

use rusqlite::{Connection, OptionalExtension};

/// Schema version that this program supports, as stored in `fs_config`.
pub const VERSION: &str = "0.4";

/// Returns the schema version of a database if it is newer than supported. Such a database must not
/// be written, and data read from it may mean something else.
pub(crate) fn unknown_version(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type='table' AND name='fs_config'";
    if !conn.prepare(sql)?.exists([])? {
        return Ok(None);
    }
    let sql = "SELECT CAST(value AS TEXT) FROM fs_config WHERE key='schema_version'";
    let found: Option<Option<String>> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(found.map(Option::unwrap_or_default).filter(|found| parts(found) > parts(VERSION)))
}

/// Returns the major and minor number; an invalid major number sorts highest.
fn parts(version: &str) -> (u32, u32) {
    let mut parts = version.trim().split('.').map(|part| part.parse().unwrap_or(u32::MAX));
    (parts.next().unwrap_or(u32::MAX), parts.next().unwrap_or(0))
}

/// Settings of a new file, set before its first table.
///
/// Pages have 1024 bytes: a row slightly longer than half a page fills a page alone and takes twice
/// its length. With pages of 8192 bytes that would hit the many files of 4096 bytes.
///
/// `auto_vacuum` stays off: AgentFS's own engine opens a database that has it, reports every write
/// as done, and persists none of them. Unmount and `fs gc` release space with `VACUUM`.
pub const SETTINGS: &str = "
PRAGMA page_size = 1024;
PRAGMA auto_vacuum = NONE;
PRAGMA journal_mode = WAL;
";

/// AgentFS's tables in the shape that the tool itself writes, which differs from its specification
/// (two columns in `fs_whiteout`, `fs_overlay_config`, `schema_version`).
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

/// Our tables, for data that AgentFS's tables cannot hold.
///
/// - `sandbox_dentry`: names that are not UTF-8, which `fs_dentry` rejects.
/// - `sandbox_whiteout`: whiteouts whose path is not UTF-8. Paths of whiteouts are paths in the base.
/// - `sandbox_symlink`: targets that are not UTF-8.
/// - `sandbox_xattr`: extended attributes.
/// - `sandbox_dir`: source of a directory's other entries, if not the directory of its name below
///   the source of its parent. NULL for an opaque directory, else the path it had in the base
///   before it was moved.
/// - `sandbox_origin`: maps the base's inode to ours, so that all names of a hard link stay one
///   file, with the attributes of the base's file at copy-up.
/// - `sandbox_loose`: files whose content is in `ID.db-loose/INO` while the database is mounted;
///   unmounting moves them into the database.
/// - `sandbox_unlinked`: how many of its names a hard-linked file of the base has lost before its
///   copy-up. The names themselves are whiteouts.
/// - `sandbox_orphan`: open inodes without a name, deleted at the next mount.
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
