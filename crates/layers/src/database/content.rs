//! File contents and extended attributes.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension};
use rustix::io::Errno;

use super::rows::text;
use super::{Database, damaged, loose_dir};
use crate::change::LayerError;

impl Database {
    /// Opens the content of a regular file of this layer, by inode.
    pub(super) fn content(&self, ino: i64, size: u64) -> Result<Box<dyn Read + Send>, LayerError> {
        if self.rows.loose.contains(&ino) {
            let file = loose(&self.path, ino)?;
            return Ok(Box::new(file.chain(io::repeat(0)).take(size)));
        }
        let connection = self.connection.clone();
        let chunk = self.rows.chunk;
        Ok(Box::new(Chunks { connection, ino, size, chunk, at: 0, held: Vec::new(), from: 0 }))
    }

    /// Returns the extended attributes of an inode, with their values, in byte order.
    pub(super) fn stored_xattrs(&self, ino: i64) -> Result<Vec<(OsString, Vec<u8>)>, LayerError> {
        if !self.rows.has("sandbox_xattr") {
            return Ok(Vec::new());
        }
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached("SELECT name, value FROM sandbox_xattr WHERE ino = ? ORDER BY name")?;
        let mut rows = statement.query([ino])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((OsString::from_vec(text(row, 0)?), text(row, 1)?));
        }
        Ok(found)
    }

    /// Returns the target of a symbolic link.
    pub(super) fn target(&self, ino: i64) -> Result<OsString, LayerError> {
        for table in ["sandbox_symlink", "fs_symlink"] {
            if !self.rows.has(table) {
                continue;
            }
            let connection = self.connection();
            let query = format!("SELECT target FROM {table} WHERE ino = ?");
            let mut statement = connection.prepare_cached(&query)?;
            let mut rows = statement.query([ino])?;
            if let Some(row) = rows.next()? {
                let target = text(row, 0)?;
                if target.is_empty() || target.len() > 4095 || target.contains(&0) {
                    return Err(damaged(format!("the link {ino} has an invalid target")));
                }
                return Ok(OsString::from_vec(target));
            }
        }
        Err(damaged(format!("the link {ino} has no target")))
    }
}

/// Opens a loose file safely: the creator of the database may have put anything at its path.
pub(crate) fn loose(database: &Path, ino: i64) -> Result<File, LayerError> {
    let path = loose_dir(database).join(ino.to_string());
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&path);
    let checked = opened.and_then(|file| {
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    });
    checked.map_err(|source| LayerError::Io { path, source })
}

/// Reader that fetches chunk by chunk. Missing chunks and the end of a short one read as zeros.
struct Chunks {
    connection: Arc<Mutex<Connection>>,
    ino: i64,
    size: u64,
    chunk: u64,
    at: u64,
    /// Chunk that was read last, and its offset in the file.
    held: Vec<u8>,
    from: u64,
}

impl Chunks {
    fn fetch(&mut self) -> io::Result<()> {
        let index = self.at / self.chunk;
        let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection
            .prepare_cached("SELECT data FROM fs_data WHERE ino = ? AND chunk_index = ?")
            .map_err(io::Error::other)?;
        let index = i64::try_from(index).map_err(|_| wrong("the chunk number is too large"))?;
        let found = statement
            .query_row((self.ino, index), |row| match row.get_ref(0)? {
                rusqlite::types::ValueRef::Blob(data) | rusqlite::types::ValueRef::Text(data) => {
                    Ok(Some(data.to_vec()))
                }
                _ => Ok(None),
            })
            .optional()
            .map_err(io::Error::other)?;
        self.held = match found {
            Some(Some(data)) => data,
            Some(None) => return Err(wrong("a chunk of the file is not a blob")),
            None => Vec::new(),
        };
        self.held.truncate(usize::try_from(self.chunk).unwrap_or(usize::MAX));
        self.from = self.at / self.chunk * self.chunk;
        Ok(())
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        if self.at == 0 || self.at >= self.from + self.chunk {
            self.fetch()?;
        }
        let left = (self.from + self.chunk).min(self.size) - self.at;
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let skip = usize::try_from(self.at - self.from).unwrap_or(usize::MAX);
        let stored = self.held.get(skip..).unwrap_or_default();
        let copied = stored.len().min(length);
        buffer[..copied].copy_from_slice(&stored[..copied]);
        buffer[copied..length].fill(0);
        self.at += length as u64;
        Ok(length)
    }
}

/// Returns the extended attributes of an open file, with their values, sorted.
pub(crate) fn xattrs(file: &impl AsFd) -> Result<Vec<(OsString, Vec<u8>)>, Errno> {
    let mut names = vec![0; 64 << 10];
    let length = match rustix::fs::flistxattr(file, &mut names[..]) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut found = Vec::new();
    let mut value = vec![0; 64 << 10];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = std::ffi::OsStr::from_bytes(name);
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Ok(length) => found.push((name.to_owned(), value[..length].to_vec())),
            // Removed meanwhile, or visible only with more privileges.
            Err(Errno::NODATA | Errno::PERM | Errno::NOTSUP) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    Ok(found)
}
