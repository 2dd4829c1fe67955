//! Plain copies of large files stored in the database. A copy is filled while a file is read, and
//! costs only disk space. It lets the kernel serve the next reader directly (FUSE passthrough). The
//! first writer turns the copy into the content, which saves copying it then.
//!
//! Until then a copy is an unnamed file (`O_TMPFILE`), so a killed process leaves none behind.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::statement::Statement;
use super::{Store, StoreError};

/// Minimum size of a copied file; shorter ones are read and extracted fast enough.
const WORTH: u64 = 1 << 20;
/// Maximum number of copies.
const MANY: usize = 16;
/// Length before the end of a sequential read that stays in the page cache, because readers may
/// still want it.
const NEAR: u64 = 4 << 20;

/// All copies, by inode.
#[derive(Debug, Default)]
pub(super) struct Copies(HashMap<u64, Copy>);

/// One copy.
#[derive(Debug)]
struct Copy {
    file: Arc<File>,
    size: u64,
    /// Chunks that the copy holds.
    has: Vec<bool>,
    missing: usize,
    /// Number of leading chunks without a gap.
    front: usize,
    /// End of the range that the kernel was told to drop from its page cache, and the end of the
    /// next such range. The delay of one round lets pending reads finish.
    forgotten: u64,
    ripe: u64,
}

impl Copy {
    /// Writes a piece and counts the chunks that are now complete.
    fn put(&mut self, offset: u64, data: &[u8], chunk: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)?;
        let end = offset + data.len() as u64;
        let end = if end >= self.size { self.size.next_multiple_of(chunk) } else { end };
        for index in offset.div_ceil(chunk)..end / chunk {
            if let Some(has) = usize::try_from(index).ok().and_then(|index| self.has.get_mut(index))
            {
                self.missing -= usize::from(!std::mem::replace(has, true));
            }
        }
        Ok(())
    }

    /// Returns a range that the copy holds and that the kernel can drop from its page cache.
    fn held_twice(&mut self, chunk: u64) -> Option<Range<u64>> {
        self.front += self.has[self.front..].iter().take_while(|has| **has).count();
        let end = match self.missing {
            0 => self.size,
            _ => (self.front as u64 * chunk).saturating_sub(NEAR),
        };
        let range = self.forgotten..std::mem::replace(&mut self.ripe, end);
        self.forgotten = range.end;
        (!range.is_empty()).then_some(range)
    }
}

impl Store {
    /// Returns the copy if it holds all of `part`.
    pub(crate) fn copied_part(&self, ino: u64, part: Range<u64>) -> Option<Arc<File>> {
        let copy = self.copies.0.get(&ino)?;
        let chunk = self.chunk_size as u64;
        let index = |at: u64| usize::try_from(at).ok();
        let chunks = index(part.start / chunk)?..index(part.end.div_ceil(chunk))?;
        let all = copy.has.get(chunks)?.iter().all(|has| *has);
        all.then(|| Arc::clone(&copy.file))
    }

    /// Returns the ranges that copies hold and the page cache may hold too, by inode, each range
    /// once.
    pub(crate) fn held_twice(&mut self) -> Vec<(u64, Range<u64>)> {
        let chunk = self.chunk_size as u64;
        let twice = |(ino, copy): (&u64, &mut Copy)| Some((*ino, copy.held_twice(chunk)?));
        self.copies.0.iter_mut().filter_map(twice).collect()
    }

    /// Adds data that was just read from the database to the file's copy. A copy that fails is
    /// dropped.
    pub(crate) fn copy_out(&mut self, ino: u64, size: u64, offset: u64, data: &[u8]) {
        // A read of the beginning may be a read of the whole file. The kernel asks for several
        // pieces at once, in any order.
        if size < WORTH || !self.copies.0.contains_key(&ino) && offset >= WORTH {
            return;
        }
        let chunk = self.chunk_size as u64;
        let done = self.copy_of(ino, size).and_then(|copy| copy.put(offset, data, chunk));
        if done.is_err() {
            self.drop_copy(ino);
        }
    }

    fn copy_of(&mut self, ino: u64, size: u64) -> io::Result<&mut Copy> {
        if self.copies.0.get(&ino).is_none_or(|copy| copy.size != size) {
            let copy = self.new_copy(size)?;
            if self.copies.0.len() >= MANY
                && let Some(other) = self.copies.0.keys().next().copied()
            {
                self.copies.0.remove(&other);
            }
            self.copies.0.insert(ino, copy);
        }
        self.copies.0.get_mut(&ino).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn new_copy(&mut self, size: u64) -> io::Result<Copy> {
        let chunks = usize::try_from(size.div_ceil(self.chunk_size as u64)).unwrap_or(usize::MAX);
        // Leave half of the free space to others.
        let room = self.disk().is_some_and(|(free, _)| free / 2 > size);
        if !room || chunks > 1 << 20 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let dir = self.loose.dir()?;
        let file = File::from(rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)?);
        file.set_len(size)?;
        let (file, has) = (Arc::new(file), vec![false; chunks]);
        Ok(Copy { file, size, has, missing: chunks, front: 0, forgotten: 0, ripe: 0 })
    }

    /// Returns the complete copy of a file.
    pub(crate) fn copy(&self, ino: u64, size: u64) -> Option<Arc<File>> {
        let copy = self.copies.0.get(&ino)?;
        (copy.missing == 0 && copy.size == size).then(|| Arc::clone(&copy.file))
    }

    /// Drops the copy of a file whose content changed or that was deleted.
    pub(crate) fn drop_copy(&mut self, ino: u64) {
        self.copies.0.remove(&ino);
    }

    /// Makes the copy the file's content.
    pub(crate) fn claim_copy(&mut self, ino: u64, copy: &Arc<File>) -> Result<(), StoreError> {
        let from = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let (dir, name) = (self.loose.dir()?, ino.to_string());
        // Remove the leftover of an earlier failure.
        let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
        rustix::fs::linkat(rustix::fs::CWD, from, dir, &name, AtFlags::SYMLINK_FOLLOW)
            .map_err(io::Error::from)?;
        self.loosen(ino)?;
        self.loose.must_sync(ino, copy);
        self.drop_copy(ino);
        Ok(())
    }

    /// Drops the chunks behind the end of a truncated loose file.
    pub(crate) fn cut_stale(&mut self, ino: u64, size: u64) -> Result<(), StoreError> {
        let from = size.div_ceil(self.chunk_size as u64);
        self.journal.run(Statement::DropChunks, &[ino.into(), from.into()])
    }

    /// Drops the chunks from `from` up to, not including, `to`.
    pub(super) fn drop_chunks(&mut self, ino: u64, from: u64, to: u64) -> Result<(), StoreError> {
        if from == to {
            return Ok(());
        }
        self.journal.run(Statement::DropSomeChunks, &[ino.into(), from.into(), to.into()])
    }
}
