//! Path as the source: a directory, a database or an archive.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::{Sink, TransferError, Watch, from_database, from_dir, from_tar};
use crate::database::Database;

/// First bytes of every SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Sends the content of a directory, a database or an archive.
pub fn from_path(
    source: &Path,
    sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    if source.is_dir() {
        return from_dir(source, sink, watch);
    }
    let mut head = [0; SQLITE.len()];
    let mut file = File::open(source).map_err(TransferError::reading(source))?;
    let length = file.read(&mut head).map_err(TransferError::reading(source))?;
    if &head[..length] == SQLITE {
        return from_database(&Database::open(source)?, sink, watch);
    }
    let whole = File::open(source).map_err(TransferError::reading(source))?;
    from_tar(BufReader::with_capacity(1 << 20, whole), sink, watch)
}
