//! Tables in memory, validated. The cost grows with the layer, not with the base.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::damaged;
use crate::RelPath;
use crate::change::{LayerError, Meta};

/// Inode number of the root directory.
pub(crate) const ROOT: i64 = 1;
/// Largest file size that any supported file system allows.
const LARGEST: u64 = 16 << 40;
/// Mask for the type bits of a mode.
pub(crate) const TYPE: u32 = 0o170_000;
pub(crate) const DIR: u32 = 0o040_000;
pub(crate) const FILE: u32 = 0o100_000;
pub(crate) const SYMLINK: u32 = 0o120_000;

/// Row of `fs_inode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Link count.
    pub links: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length of a regular file.
    pub size: u64,
    /// Time of the last write, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Device number of a device file.
    pub device: u64,
}

impl Inode {
    /// Returns true when it is a directory.
    pub fn is_dir(self) -> bool {
        self.mode & TYPE == DIR
    }

    /// Returns true when it is a regular file.
    pub fn is_file(self) -> bool {
        self.mode & TYPE == FILE
    }

    /// Returns true when it is a symbolic link.
    pub fn is_symlink(self) -> bool {
        self.mode & TYPE == SYMLINK
    }

    /// Returns its attributes as a layer reports them.
    pub(crate) fn meta(self) -> Meta {
        let special = !matches!(self.mode & TYPE, DIR | FILE | SYMLINK);
        let mode = if special { self.mode } else { self.mode & 0o7777 };
        Meta { mode, uid: self.uid, gid: self.gid, mtime: self.mtime, links: self.links }
    }
}

/// Names of a directory and their inodes, in byte order.
pub(crate) type Names = BTreeMap<OsString, i64>;

#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) base: Option<PathBuf>,
    pub(crate) chunk: u64,
    pub(crate) inodes: HashMap<i64, Inode>,
    pub(crate) names: HashMap<i64, Names>,
    /// Deleted names by directory of the base, relative to its root.
    pub(crate) whiteouts: BTreeMap<PathBuf, HashSet<OsString>>,
    /// Source of a directory's other entries, if it is not the path of the same name.
    pub(crate) merges: HashMap<i64, Option<PathBuf>>,
    pub(crate) loose: HashSet<i64>,
    /// Maps a file of the base to the inode of its copy.
    pub(crate) copies: HashMap<i64, i64>,
    /// Maps an inode to the number that programs see.
    pub(crate) shown: HashMap<i64, i64>,
    tables: HashSet<String>,
}

impl Rows {
    pub(crate) fn load(db: &Connection) -> Result<Self, LayerError> {
        let tables = tables(db)?;
        let mut rows = Self {
            base: None,
            chunk: 4096,
            inodes: inodes(db)?,
            names: HashMap::new(),
            whiteouts: BTreeMap::new(),
            merges: HashMap::new(),
            loose: HashSet::new(),
            copies: HashMap::new(),
            shown: HashMap::new(),
            tables,
        };
        rows.settings(db)?;
        rows.dentries(db)?;
        rows.gone(db)?;
        rows.ours(db)?;
        match rows.inodes.get(&ROOT) {
            Some(root) if root.is_dir() => Ok(rows),
            Some(_) => Err(damaged("the root is not a directory")),
            None => Err(damaged("there is no root directory")),
        }
    }

    pub(crate) fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    fn settings(&mut self, db: &Connection) -> Result<(), LayerError> {
        if self.has("fs_config") {
            each(db, "SELECT key, value FROM fs_config", |row| {
                if text(row, 0)? == b"chunk_size" {
                    self.chunk = chunk_size(&text(row, 1)?)?;
                }
                Ok(())
            })?;
        }
        if self.has("fs_overlay_config") {
            each(db, "SELECT key, value FROM fs_overlay_config", |row| {
                if text(row, 0)? == b"base_path" {
                    let path = PathBuf::from(OsString::from_vec(text(row, 1)?));
                    if !path.is_absolute() {
                        return Err(damaged("the path of the base is not absolute"));
                    }
                    self.base = Some(path);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn dentries(&mut self, db: &Connection) -> Result<(), LayerError> {
        let mut queries = vec!["SELECT parent_ino, name, ino FROM fs_dentry"];
        if self.has("sandbox_dentry") {
            queries.push("SELECT parent_ino, name, ino FROM sandbox_dentry");
        }
        for query in queries {
            each(db, query, |row| {
                let (parent, ino): (i64, i64) = (row.get(0)?, row.get(2)?);
                let name = OsString::from_vec(text(row, 1)?);
                if !is_name(&name) {
                    return Err(damaged(format!("invalid name `{}`", name.display())));
                }
                if self.names.entry(parent).or_default().insert(name.clone(), ino).is_some() {
                    return Err(damaged(format!("duplicate name `{}`", name.display())));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn gone(&mut self, db: &Connection) -> Result<(), LayerError> {
        for table in ["fs_whiteout", "sandbox_whiteout"] {
            if !self.has(table) {
                continue;
            }
            each(db, &format!("SELECT path FROM {table}"), |row| {
                let path = inside(&text(row, 0)?)?;
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                    return Err(damaged("a whiteout names the root of the base"));
                };
                self.whiteouts.entry(parent.to_owned()).or_default().insert(name.to_owned());
                Ok(())
            })?;
        }
        Ok(())
    }

    fn ours(&mut self, db: &Connection) -> Result<(), LayerError> {
        if self.has("sandbox_dir") {
            each(db, "SELECT ino, base FROM sandbox_dir", |row| {
                let base = match row.get_ref(1)? {
                    ValueRef::Null => None,
                    _ => Some(inside(&text(row, 1)?)?),
                };
                self.merges.insert(row.get(0)?, base);
                Ok(())
            })?;
        }
        if self.has("sandbox_origin") {
            each(db, "SELECT base_ino, delta_ino FROM sandbox_origin", |row| {
                self.copies.insert(row.get(0)?, row.get(1)?);
                Ok(())
            })?;
        }
        if self.has("fs_origin") {
            each(db, "SELECT delta_ino, base_ino FROM fs_origin", |row| {
                self.shown.insert(row.get(0)?, row.get(1)?);
                Ok(())
            })?;
        }
        if self.has("sandbox_loose") {
            each(db, "SELECT ino FROM sandbox_loose", |row| {
                self.loose.insert(row.get(0)?);
                Ok(())
            })?;
        }
        Ok(())
    }
}

pub(crate) fn tables(db: &Connection) -> Result<HashSet<String>, LayerError> {
    let mut statement = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}

/// Returns the columns of a table. Older databases lack some, and the specification differs too.
pub(crate) fn columns(db: &Connection, table: &str) -> Result<HashSet<String>, LayerError> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}

fn inodes(db: &Connection) -> Result<HashMap<i64, Inode>, LayerError> {
    let mut inodes = HashMap::new();
    read_inodes(db, |ino, inode| {
        let inode = inode.map_err(|what| damaged(format!("inode {ino}: {what}")))?;
        inodes.insert(ino, inode);
        Ok(())
    })?;
    Ok(inodes)
}

/// Passes each inode, or the reason why it is invalid, to `take`.
pub(crate) fn read_inodes(
    db: &Connection,
    mut take: impl FnMut(i64, Result<Inode, String>) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    let known = columns(db, "fs_inode")?;
    let or_zero = |name: &'static str| if known.contains(name) { name } else { "0" };
    let query = format!(
        "SELECT ino, mode, uid, gid, size, mtime, {}, {}, {} FROM fs_inode",
        or_zero("nlink"),
        or_zero("mtime_nsec"),
        or_zero("rdev"),
    );
    each(db, &query, |row| take(row.get(0)?, inode(row)))
}

fn inode(row: &Row<'_>) -> Result<Inode, String> {
    fn number<T: TryFrom<i64>>(row: &Row<'_>, at: usize, what: &str) -> Result<T, String> {
        let value: i64 = row.get(at).map_err(|_| format!("its {what} is not a number"))?;
        T::try_from(value).map_err(|_| format!("its {what} is {value}"))
    }
    let mode: u32 = number(row, 1, "mode")?;
    let known =
        matches!(mode & TYPE, DIR | FILE | SYMLINK | 0o010_000 | 0o020_000 | 0o060_000 | 0o140_000);
    if mode > 0o177_777 || !known {
        return Err(format!("its mode {mode:o} is invalid"));
    }
    let nanoseconds: u32 = number(row, 7, "time")?;
    let size: u64 = number(row, 4, "size")?;
    if nanoseconds >= 1_000_000_000 || size > LARGEST {
        return Err(format!("its size {size} or its nanoseconds {nanoseconds} are out of range"));
    }
    Ok(Inode {
        mode,
        links: number(row, 6, "link count")?,
        uid: number(row, 2, "owner")?,
        gid: number(row, 3, "group")?,
        size,
        mtime: (number(row, 5, "time")?, nanoseconds),
        device: number(row, 8, "device")?,
    })
}

/// Runs a query and passes each row to `look`.
pub(crate) fn each(
    db: &Connection,
    query: &str,
    mut look: impl FnMut(&Row<'_>) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    let mut statement = db.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        look(row)?;
    }
    Ok(())
}

/// Returns the bytes of a text or blob.
pub(crate) fn text(row: &Row<'_>, at: usize) -> Result<Vec<u8>, LayerError> {
    match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes.to_vec()),
        _ => Err(damaged("expected a text, found a number")),
    }
}

pub(crate) fn chunk_size(text: &[u8]) -> Result<u64, LayerError> {
    let size = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    size.filter(|size| (1..=1 << 30).contains(size))
        .ok_or_else(|| damaged(format!("invalid chunk_size `{}`", text.escape_ascii())))
}

/// Returns true for a single name that a directory can hold.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= 255
        && name != "."
        && name != ".."
        && !bytes.contains(&b'/')
        && !bytes.contains(&0)
}

/// Converts a stored path `/a/b` to `a/b`; the root becomes the empty path.
pub(crate) fn inside(stored: &[u8]) -> Result<PathBuf, LayerError> {
    let path = Path::new(OsStr::from_bytes(stored));
    let wrong = || damaged(format!("invalid base path `{}`", path.display()));
    let below = path.strip_prefix("/").map_err(|_| wrong())?;
    if below.as_os_str().is_empty() {
        return Ok(PathBuf::new());
    }
    RelPath::new(below).map(|path| path.as_path().to_owned()).ok_or_else(wrong)
}
