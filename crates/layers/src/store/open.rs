//! Creating and opening databases.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use rustix::io::Errno;
use sandbox_linux::lock::LockFile;

use super::copy::Copies;
use super::journal::Journal;
use super::loose::Loose;
use super::pieces::follows;
use super::redo::Follows;
use super::room::Room;
use super::run::last_ino;
use super::{Inode, Rare, Store, StoreError, Time, beside, schema, whiteout};

/// Chunk size of new databases.
const CHUNK_SIZE: usize = 65536;

impl Store {
    /// Creates a database, with or without a base, and opens it.
    pub fn create(path: &Path, base: Option<&Path>) -> Result<Self, StoreError> {
        let base = base.map(Path::canonicalize).transpose()?;
        if let Some(lower) = base.as_deref().filter(|base| base.is_file()) {
            return Self::create_over(path, lower);
        }
        make(path, base.as_deref())?;
        Self::open(path)
    }

    /// Creates a database on top of another and continues its inode numbers.
    fn create_over(path: &Path, lower: &Path) -> Result<Self, StoreError> {
        let lower = Self::open_below(lower)?;
        make(path, Some(&lower.path))?;
        let mut store = Self::open(path)?;
        store.next_ino = lower.next_ino.max(store.next_ino);
        let root = lower.inode(1)?.ok_or_else(|| damaged("there is no root directory"))?;
        store.put_inode(1, &root)?;
        // AUTOINCREMENT continues after the highest number that was ever used.
        store.put_inode(store.next_ino, &root)?;
        store.commit()?;
        store.drop_inode(store.next_ino, store.next_ino, &Inode { mode: 0, ..root })?;
        store.new_ino();
        store.commit()?;
        Ok(store)
    }

    /// Opens a database and recovers from a killed mount.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = lock(path, LockFile::try_exclusive)?;
        let conn = connect(path)?;
        let config = Config::read(path, &conn)?;
        let follows = super::recover::redo(&conn, path, config.epoch)?;
        let mut store = Self::over(conn, path, config, follows, lock)?;
        store.recover()?;
        Ok(store)
    }

    /// Opens a database that is the base of others. Several readers share it; writers are locked
    /// out.
    pub(crate) fn open_below(path: &Path) -> Result<Self, StoreError> {
        match Self::open(path) {
            // Closing leaves it recovered and without loose files.
            Ok(store) => store.close()?,
            // Other readers may hold it.
            Err(StoreError::InUse { .. }) => {}
            Err(error) => return Err(error),
        }
        let lock = lock(path, LockFile::try_shared)?;
        let conn = connect(path)?;
        let config = Config::read(path, &conn)?;
        let follows = follows(&conn, config.epoch)?;
        let mut store = Self::over(conn, path, config, follows, lock)?;
        store.adopt_loose()?;
        Ok(store)
    }

    fn over(
        conn: Connection,
        path: &Path,
        config: Config,
        follows: Follows,
        lock: LockFile,
    ) -> Result<Self, StoreError> {
        let room = Room::on(super::disk(path));
        conn.pragma_update(None, "journal_size_limit", room.wal().cast_signed())?;
        Ok(Self {
            chunk_size: config.chunk_size,
            base: config.base,
            whiteouts: whiteout::Form::of(&conn)?,
            loose: Loose::beside(path),
            copies: Copies::default(),
            next_ino: last_ino(&conn)? + 1,
            any: rare(&conn)?,
            journal: Journal::new(conn, path.to_owned(), follows, room.unit()),
            path: path.to_owned(),
            room,
            lock,
        })
    }

    /// Closes the database, with everything in one file and free space released. On a full disk
    /// large files stay beside it and free pages are not released.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.commit()?;
        // All data is in the database from here on. The checkpoint first releases the reserved
        // space.
        let cut = self.pragma("wal_checkpoint(TRUNCATE)");
        let settled = self.settle_loose();
        let vacuumed = self.vacuum();
        let cut_again = self.pragma("wal_checkpoint(TRUNCATE)");
        let path = self.path.clone();
        let Self { journal, lock, .. } = self;
        drop(journal);
        let _ = std::fs::remove_file(beside(&path, "-redo"));
        drop(lock);
        [cut, settled, vacuumed, cut_again].into_iter().try_for_each(|done| match done {
            Err(error) if error.errno() == Errno::NOSPC => Ok(()),
            other => other,
        })
    }
}

impl Store {
    /// Releases free pages to the file system with VACUUM once they are a large part of the file.
    fn vacuum(&self) -> Result<(), StoreError> {
        let count = |what: &str| {
            self.journal.conn.query_row(&format!("PRAGMA {what}"), [], |row| row.get::<_, i64>(0))
        };
        let (free, all) = (count("freelist_count")?, count("page_count")?);
        if free > WORTH && free > all / 4 {
            self.journal.conn.execute_batch("VACUUM")?;
        }
        Ok(())
    }
}

/// Maximum number of free pages that are kept for later writes.
const WORTH: i64 = 2048;

/// Values of the settings tables.
struct Config {
    chunk_size: usize,
    base: Option<PathBuf>,
    epoch: u64,
}

impl Config {
    fn read(path: &Path, conn: &Connection) -> Result<Self, StoreError> {
        let get = |table: &str, key: &str| {
            let sql = format!("SELECT value FROM {table} WHERE key=?1");
            conn.query_row(&sql, [key], |row| row.get::<_, String>(0)).optional()
        };
        let chunk_size = get("fs_config", "chunk_size")
            .map_err(|error| StoreError::Foreign {
                path: path.to_owned(),
                what: format!("cannot read its settings ({error})"),
            })?
            .unwrap_or_else(|| "4096".into());
        let chunk_size = chunk_size.parse().ok().filter(|size| (1..=16 << 20).contains(size));
        Ok(Self {
            chunk_size: chunk_size.ok_or_else(|| damaged("invalid chunk size"))?,
            base: get("fs_overlay_config", "base_path")?.map(PathBuf::from),
            epoch: get("fs_config", "sandbox_epoch")?
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
        })
    }
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Damaged { what: what.to_owned() }
}

/// Locks a database for this process. flock(2) locks do not conflict with SQLite's fcntl(2) locks.
fn lock(
    path: &Path,
    take: impl FnOnce(&LockFile) -> io::Result<bool>,
) -> Result<LockFile, StoreError> {
    let lock = LockFile::from(OpenOptions::new().read(true).write(true).open(path)?);
    if take(&lock)? { Ok(lock) } else { Err(StoreError::InUse { path: path.to_owned() }) }
}

/// Opens a connection that runs no code from the file: no triggers, views or untrusted schema.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLITE_OPEN_NOFOLLOW rejects links anywhere in the path, but the directory may be one.
    let path = super::parent(path).canonicalize()?.join(path.file_name().unwrap_or_default());
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    if let Some(found) = schema::unknown_version(&conn)? {
        return Err(StoreError::Newer { found });
    }
    conn.set_prepared_statement_cache_capacity(64);
    // Without cache spilling only a commit writes, so a full disk cannot end a transaction
    // half-way.
    conn.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_spill=OFF;
         PRAGMA cache_size=-12000; PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY;",
    )?;
    conn.execute_batch(schema::OURS)?;
    add_missing(&conn)?;
    Ok(conn)
}

/// Adds tables and columns that older versions of AgentFS lack.
fn add_missing(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fs_whiteout (path TEXT PRIMARY KEY, created_at INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fs_origin (delta_ino INTEGER PRIMARY KEY, base_ino INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fs_overlay_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);",
    )?;
    let mut columns = conn.prepare("SELECT name FROM pragma_table_info('fs_inode')")?;
    let columns: Vec<String> =
        columns.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for column in ["nlink", "rdev", "atime_nsec", "mtime_nsec", "ctime_nsec"] {
        if !columns.is_empty() && !columns.iter().any(|name| name == column) {
            let default = u8::from(column == "nlink");
            conn.execute_batch(&format!(
                "ALTER TABLE fs_inode ADD COLUMN {column} INTEGER NOT NULL DEFAULT {default}"
            ))?;
        }
    }
    Ok(())
}

fn rare(conn: &Connection) -> rusqlite::Result<Rare> {
    let any = |what: &str| {
        conn.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {what})"), [], |row| row.get(0))
    };
    Ok(Rare {
        xattrs: any("sandbox_xattr")?,
        redirects: any("sandbox_dir WHERE base NOTNULL")?,
        raw_names: any("sandbox_dentry")?,
        origins: any("sandbox_origin")? || any("fs_origin")?,
    })
}

/// Creates the file of a new database.
fn make(path: &Path, base: Option<&Path>) -> Result<(), StoreError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        Err(error) => return Err(error.into()),
    }
    let filled = fill(path, base);
    if filled.is_err() {
        let _ = std::fs::remove_file(path);
    }
    filled
}

fn fill(path: &Path, base: Option<&Path>) -> Result<(), StoreError> {
    let conn = Connection::open(path)?;
    conn.execute_batch(schema::SETTINGS)?;
    conn.execute_batch("BEGIN")?;
    conn.execute_batch(schema::THEIRS)?;
    conn.execute_batch(schema::OURS)?;
    for (key, value) in
        [("chunk_size", CHUNK_SIZE.to_string()), ("schema_version", schema::VERSION.into())]
    {
        conn.execute("INSERT INTO fs_config (key, value) VALUES (?1, ?2)", (key, value))?;
    }
    if let Some(base) = base {
        let text = base.to_str().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the base's path is not UTF-8")
        })?;
        let sql = "INSERT INTO fs_overlay_config (key, value) VALUES ('base_path', ?1)";
        conn.execute(sql, [text])?;
    }
    let (mode, uid, gid, links, time) = root_of(base)?;
    conn.execute(
        "INSERT INTO fs_inode (ino, mode, nlink, uid, gid, size, atime, mtime, ctime, atime_nsec,
         mtime_nsec, ctime_nsec) VALUES (1, ?1, ?6, ?2, ?3, 0, ?4, ?4, ?4, ?5, ?5, ?5)",
        (mode, uid, gid, time.sec, time.nsec, links.cast_signed()),
    )?;
    conn.execute_batch("COMMIT; PRAGMA journal_mode=WAL;")?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Returns mode, owner, group, link count and time of the root, from the base if it is a directory.
fn root_of(base: Option<&Path>) -> io::Result<(u32, u32, u32, u64, Time)> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let mine = (libc::S_IFDIR | 0o755, uid.as_raw(), gid.as_raw(), 2, Time::now());
    let Some(meta) = base.map(std::fs::metadata).transpose()?.filter(std::fs::Metadata::is_dir)
    else {
        return Ok(mine);
    };
    let nsec = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
    Ok((meta.mode(), meta.uid(), meta.gid(), meta.nlink(), Time { sec: meta.mtime(), nsec }))
}
