//! File content in the database, in chunks of equal length. A missing chunk is a hole and a short
//! chunk ends in zeros. Only very sparse files are stored that way: AgentFS's SDKs take both for
//! the end of the file.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::blob::Blob;
use rusqlite::{OptionalExtension, Row};

use super::loose::stays_sparse;
use super::statement::{Statement, Value};
use super::{Store, StoreError};

impl Store {
    /// Fills `buffer` with the content at `offset`; holes read as zeros.
    pub(crate) fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        buffer.fill(0);
        // Values that are not blobs cannot be read in place. They are read row by row below.
        if buffer.len() >= self.chunk_size && self.read_in_place(ino, offset, buffer).is_ok() {
            return Ok(());
        }
        let mut query = self.journal.conn.prepare_cached(
            "SELECT chunk_index, data FROM fs_data WHERE ino=?1 AND chunk_index BETWEEN ?2 AND ?3",
        )?;
        let mut rows = query.query(self.chunks(ino, offset, buffer.len()))?;
        while let Some(row) = rows.next()? {
            let start = self.start(row)?;
            let chunk = row.get_ref(1)?.as_bytes().unwrap_or_default();
            if let Some((into, out)) = self.overlap(offset, buffer.len(), start, chunk.len()) {
                let part = &mut buffer[into];
                part.copy_from_slice(&chunk[out..][..part.len()]);
            }
        }
        Ok(())
    }

    /// Reads directly from the database pages, because allocating and filling a buffer for a whole
    /// chunk costs as much as the read.
    fn read_in_place(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> rusqlite::Result<()> {
        let conn = &self.journal.conn;
        let mut query = conn.prepare_cached(
            "SELECT chunk_index, rowid FROM fs_data WHERE ino=?1 AND chunk_index BETWEEN ?2 AND ?3",
        )?;
        let mut rows = query.query(self.chunks(ino, offset, buffer.len()))?;
        let mut open: Option<Blob<'_>> = None;
        while let Some(row) = rows.next()? {
            let (start, id) = (self.start(row)?, row.get(1)?);
            let blob = match &mut open {
                Some(blob) => {
                    blob.reopen(id)?;
                    blob
                }
                None => open.insert(conn.blob_open("main", "fs_data", "data", id, true)?),
            };
            if let Some((into, out)) = self.overlap(offset, buffer.len(), start, blob.len()) {
                blob.read_at_exact(&mut buffer[into], out)?;
            }
        }
        Ok(())
    }

    /// Returns the inode with the first and last chunk of a range.
    fn chunks(&self, ino: u64, offset: u64, length: usize) -> (i64, i64, i64) {
        let size = self.chunk_size as u64;
        let end = offset + length as u64;
        let last = (end.max(1) - 1) / size;
        (ino.cast_signed(), (offset / size).cast_signed(), last.cast_signed())
    }

    /// Returns the file offset of a row's chunk.
    fn start(&self, row: &Row) -> rusqlite::Result<u64> {
        Ok(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0) * self.chunk_size as u64)
    }

    /// Returns the part of a range at `offset` that the chunk at `start` fills, and the position in
    /// the chunk where that part begins.
    fn overlap(
        &self,
        offset: u64,
        length: usize,
        start: u64,
        chunk: usize,
    ) -> Option<(Range<usize>, usize)> {
        // Cap a chunk at the chunk size, as AgentFS does: a longer one would overlap the next.
        let chunk = chunk.min(self.chunk_size) as u64;
        let (from, to) = (offset.max(start), (offset + length as u64).min(start + chunk));
        let span = |from: u64, to: u64| usize::try_from(to - from).ok();
        (from < to).then_some(())?;
        Some((span(offset, from)?..span(offset, to)?, span(start, from)?))
    }

    /// Replaces all content.
    pub(crate) fn put_content(&mut self, ino: u64, content: &[u8]) -> Result<(), StoreError> {
        self.drop_copy(ino);
        let mut count = 0;
        for (index, chunk) in content.chunks(self.chunk_size).enumerate() {
            self.put_chunk(ino, index as u64, chunk)?;
            count = index + 1;
        }
        self.journal.run(Statement::DropChunks, &[ino.into(), (count as u64).into()])
    }

    /// Writes the initial content of an inode.
    pub(crate) fn put_first_content(&mut self, ino: u64, bytes: &[u8]) -> Result<(), StoreError> {
        for (index, chunk) in bytes.chunks(self.chunk_size).enumerate() {
            self.put_chunk(ino, index as u64, chunk)?;
        }
        Ok(())
    }

    /// Writes one chunk.
    pub(crate) fn put_chunk(
        &mut self,
        ino: u64,
        index: u64,
        chunk: &[u8],
    ) -> Result<(), StoreError> {
        self.journal.run(Statement::PutChunk, &[ino.into(), index.into(), Value::Blob(chunk)])
    }

    /// Truncates the content to `size` bytes, so that a later extension reads as zeros.
    pub(crate) fn cut(&mut self, ino: u64, size: u64) -> Result<(), StoreError> {
        self.drop_copy(ino);
        let (index, inside) = (size / self.chunk_size as u64, size % self.chunk_size as u64);
        self.journal.run(
            Statement::DropChunks,
            &[ino.into(), size.div_ceil(self.chunk_size as u64).into()],
        )?;
        let inside = usize::try_from(inside).unwrap_or(0);
        if inside > 0
            && let Some(mut chunk) = self.chunk(ino, index)?
            && chunk.len() > inside
        {
            chunk.truncate(inside);
            self.put_chunk(ino, index, &chunk)?;
        }
        self.fill_holes(ino, size)
    }

    /// Writes zeros for missing chunks and a short last chunk of a file of `size` bytes, unless it
    /// stays sparse. See [`Store::copy_in`].
    fn fill_holes(&mut self, ino: u64, size: u64) -> Result<(), StoreError> {
        let chunk_size = self.chunk_size as u64;
        let count = size.div_ceil(chunk_size);
        let has = self.chunk_numbers(ino)?;
        let missing = count.saturating_sub(has.len() as u64);
        if stays_sparse(missing * chunk_size, has.len() as u64 * chunk_size) {
            return Ok(());
        }
        let length =
            |index: u64| usize::try_from((size - index * chunk_size).min(chunk_size)).unwrap_or(0);
        if missing > 0 {
            for index in (0..count).filter(|index| !has.contains(index)) {
                self.put_chunk(ino, index, &vec![0; length(index)])?;
            }
        }
        let Some(last) = count.checked_sub(1) else { return Ok(()) };
        match self.chunk(ino, last)? {
            Some(mut chunk) if chunk.len() < length(last) => {
                chunk.resize(length(last), 0);
                self.put_chunk(ino, last, &chunk)
            }
            _ => Ok(()),
        }
    }

    fn chunk_numbers(&self, ino: u64) -> Result<HashSet<u64>, StoreError> {
        let sql = "SELECT chunk_index FROM fs_data WHERE ino=?1";
        let mut query = self.journal.conn.prepare_cached(sql)?;
        let numbers = query.query_map([ino.cast_signed()], |row| row.get::<_, i64>(0))?;
        Ok(numbers.map(|number| number.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
    }

    pub(super) fn chunk(&self, ino: u64, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut query = self
            .journal
            .conn
            .prepare_cached("SELECT data FROM fs_data WHERE ino=?1 AND chunk_index=?2")?;
        Ok(query
            .query_row((ino.cast_signed(), index.cast_signed()), |row| {
                Ok(row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec())
            })
            .optional()?)
    }

    /// Returns the next offset with content at or after `offset`.
    pub(crate) fn next_data(&self, ino: u64, offset: u64) -> Result<Option<u64>, StoreError> {
        let size = self.chunk_size as u64;
        let mut query = self.journal.conn.prepare_cached(
            "SELECT min(chunk_index) FROM fs_data WHERE ino=?1 AND chunk_index>=?2",
        )?;
        let index: Option<i64> = query
            .query_row((ino.cast_signed(), (offset / size).cast_signed()), |row| row.get(0))?;
        Ok(index.map(|index| index.cast_unsigned().saturating_mul(size).max(offset)))
    }

    /// Returns the next hole at or after `offset`.
    pub(crate) fn next_hole(&self, ino: u64, offset: u64) -> Result<u64, StoreError> {
        let size = self.chunk_size as u64;
        let mut query = self
            .journal
            .conn
            .prepare_cached("SELECT 1 FROM fs_data WHERE ino=?1 AND chunk_index=?2")?;
        let mut index = offset / size;
        while query.exists((ino.cast_signed(), index.cast_signed()))? {
            index += 1;
        }
        Ok((index * size).max(offset))
    }
}
