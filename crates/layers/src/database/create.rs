//! Creation of empty databases.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, params};
use sandbox_linux::lock::LockFile;
use sandbox_protocol::Hint;
use thiserror::Error;

use super::open::{beside, loose_dir};
use super::rows::DIR;
use crate::store::{Store, StoreError, schema};

/// Chunk size of databases created here, in bytes.
pub(crate) const CHUNK: u32 = 64 << 10;

/// Set of tables in a new database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// Tables of AgentFS and our own.
    All,
    /// Tables of AgentFS only.
    Theirs,
}

/// Error of creating a database.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The path already exists.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// Another process has it open.
    #[error("`{}` is in use", .0.display())]
    InUse(PathBuf),
    /// The base cannot be stored in a database.
    #[error("invalid base `{}`: {why}", base.display())]
    Base {
        /// Path of the base.
        base: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// A file system operation failed.
    #[error("cannot create `{}`", path.display())]
    Io {
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Database(#[from] StoreError),
}

impl From<rusqlite::Error> for CreateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl Hint for CreateError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Exists(_) => "pass `--force` to replace it",
            Self::InUse(_) => "unmount it with `agent-sandbox fs unmount`",
            Self::Base { .. } => "pass an existing directory to `--base`",
            Self::Io { .. } | Self::Database(_) => return None,
        };
        Some(text.to_owned())
    }
}

/// Creates a database, with or without a base. The file appears complete or not at all, and never
/// replaces another.
pub fn create(path: &Path, base: Option<&Path>) -> Result<(), CreateError> {
    let base = base.map(real_base).transpose()?;
    let draft = draft(path);
    let made = Store::create(&draft, base.as_deref()).and_then(Store::close);
    let made = made.map_err(CreateError::from).and_then(|()| publish(&draft, path));
    discard(&draft, made)
}

/// Creates a database in place of another, which is deleted unless it is in use.
pub fn replace(path: &Path, base: Option<&Path>) -> Result<(), CreateError> {
    clear(path)?;
    create(path, base)
}

/// Deletes a database unless it is in use.
pub fn clear(path: &Path) -> Result<(), CreateError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        _ if is_in_use(path) => return Err(CreateError::InUse(path.to_owned())),
        _ => {}
    }
    remove(path).map_err(at(path))
}

/// Links a finished draft to its final name, unless that exists.
pub(crate) fn publish(draft: &Path, path: &Path) -> Result<(), CreateError> {
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(CreateError::Exists(path.to_owned()))
        }
        linked => linked.map_err(at(path)),
    }
}

/// Removes a draft, after success and after failure. Returns the first error.
pub(crate) fn discard<E: From<CreateError>>(draft: &Path, made: Result<(), E>) -> Result<(), E> {
    let removed = remove(draft).map_err(at(draft));
    made?;
    Ok(removed?)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CreateError {
    let path = path.to_owned();
    move |source| CreateError::Io { path, source }
}

/// Database that another process has open, so it cannot be changed.
#[derive(Debug, Error)]
#[error("`{}` is in use", .0.display())]
pub struct InUse(PathBuf);

impl Hint for InUse {
    fn hint(&self) -> Option<String> {
        Some("unmount it first; `agent-sandbox fs ps` lists mounts".to_owned())
    }
}

/// Returns an error if the database is mounted, or open in another program.
pub fn check_unused(path: &Path) -> Result<(), InUse> {
    if is_in_use(path) { Err(InUse(path.to_owned())) } else { Ok(()) }
}

/// Returns true when another process has the database open: it is mounted, or SQLite's locks are held.
pub(crate) fn is_in_use(path: &Path) -> bool {
    let Ok(lock) = LockFile::existing(path) else { return false };
    if matches!(lock.try_exclusive(), Ok(false)) {
        return true;
    }
    drop(lock);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let alone = || -> Result<(), rusqlite::Error> {
        let db = Connection::open_with_flags(path, flags)?;
        db.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK;")
    };
    alone().is_err_and(|error| super::is_locked(&error))
}

/// Removes a database and the files beside it. The caller ensures that it is not in use.
pub fn remove(path: &Path) -> io::Result<()> {
    let beside = ["-wal", "-shm", "-redo"].map(|suffix| beside(path, suffix));
    for file in [path.to_owned()].iter().chain(&beside) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match fs::remove_dir_all(loose_dir(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the temporary path under which a database is created.
pub(crate) fn draft(path: &Path) -> PathBuf {
    beside(path, &format!(".new-{}", std::process::id()))
}

/// Creates a file with empty tables and a root directory, open for writing.
pub(crate) fn empty(path: &Path, tables: Tables) -> Result<Connection, CreateError> {
    // It may later hold data that only its owner may read in the base.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at(path))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.execute_batch(schema::SETTINGS)?;
    db.execute_batch(schema::THEIRS)?;
    if tables == Tables::All {
        db.execute_batch(schema::OURS)?;
    }
    db.execute("INSERT INTO fs_config VALUES ('chunk_size', ?)", [CHUNK.to_string()])?;
    db.execute("INSERT INTO fs_config VALUES ('schema_version', ?1)", [schema::VERSION])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (uid, gid) = (sandbox_linux::process::uid(), sandbox_linux::process::gid());
    db.execute(
        "INSERT INTO fs_inode (ino, mode, nlink, uid, gid, size, atime, mtime, ctime)
         VALUES (1, ?1, 2, ?2, ?3, 0, ?4, ?4, ?4)",
        params![DIR | 0o755, uid, gid, now.cast_signed()],
    )?;
    Ok(db)
}

/// Closes a new database, which leaves a single file.
pub(crate) fn close(db: Connection) -> Result<(), CreateError> {
    db.close().map_err(|(_, error)| error.into())
}

/// Returns the canonical path of a base.
fn real_base(base: &Path) -> Result<PathBuf, CreateError> {
    let wrong = |why| CreateError::Base { base: base.to_owned(), why };
    let real = base.canonicalize().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => wrong("it does not exist"),
        _ => CreateError::Io { path: base.to_owned(), source },
    })?;
    match (real.is_dir(), std::str::from_utf8(real.as_os_str().as_bytes())) {
        (false, _) => Err(wrong("it is not a directory")),
        (true, Err(_)) => Err(wrong("its path is not UTF-8, which other tools could not read")),
        (true, Ok(_)) => Ok(real),
    }
}
