//! Plain copies of large contents that the database holds. They are made while somebody reads such
//! a file, cost nothing but the disk's room, and let the kernel serve the next reader without us.
//! The first writer makes one the content itself: then nothing has to be copied any more.
//!
//! A copy has no name until then, so that a killed process leaves none behind.

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

/// Shorter files are read and taken out fast enough.
const WORTH: u64 = 1 << 20;
/// As many copies are held.
const MANY: usize = 16;
/// What was read last stays in the cache: whoever reads it may not be done with it.
const NEAR: u64 = 4 << 20;

/// All copies, by inode.
#[derive(Debug, Default)]
pub(super) struct Copies(HashMap<u64, Copy>);

/// One copy.
#[derive(Debug)]
struct Copy {
    file: Arc<File>,
    size: u64,
    /// Which chunks it has.
    has: Vec<bool>,
    missing: usize,
    /// How many of the first chunks are there without a gap.
    front: usize,
    /// Up to where the kernel was told to forget what it has in its cache, and will be next: whoever
    /// is being answered from there then has his answer.
    forgotten: u64,
    ripe: u64,
}

impl Copy {
    /// Writes a piece; counts the chunks that it holds whole.
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

    /// The range that the kernel has in its cache and need not have any more.
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
    /// The part of a copy that is there already.
    pub(crate) fn copied_part(&self, ino: u64, part: Range<u64>) -> Option<Arc<File>> {
        let copy = self.copies.0.get(&ino)?;
        let chunk = self.chunk_size as u64;
        let index = |at: u64| usize::try_from(at).ok();
        let chunks = index(part.start / chunk)?..index(part.end.div_ceil(chunk))?;
        let all = copy.has.get(chunks)?.iter().all(|has| *has);
        all.then(|| Arc::clone(&copy.file))
    }

    /// What lies in a copy by now, and in the kernel's cache too: by inode, each range once.
    pub(crate) fn held_twice(&mut self) -> Vec<(u64, Range<u64>)> {
        let chunk = self.chunk_size as u64;
        let twice = |(ino, copy): (&u64, &mut Copy)| Some((*ino, copy.held_twice(chunk)?));
        self.copies.0.iter_mut().filter_map(twice).collect()
    }

    /// What was just read of a file of the database goes into its copy. Where there is no room, or
    /// it cannot be made, there is none.
    pub(crate) fn copy_out(&mut self, ino: u64, size: u64, offset: u64, data: &[u8]) {
        // Whoever reads it from its beginning may want all of it. The kernel asks for several pieces at once, in any order.
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
        // Half of what is free is left to others.
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

    /// The copy of a file, once it has everything.
    pub(crate) fn copy(&self, ino: u64, size: u64) -> Option<Arc<File>> {
        let copy = self.copies.0.get(&ino)?;
        (copy.missing == 0 && copy.size == size).then(|| Arc::clone(&copy.file))
    }

    /// The content has changed, or is gone.
    pub(crate) fn drop_copy(&mut self, ino: u64) {
        self.copies.0.remove(&ino);
    }

    /// From now on the copy is the content.
    pub(crate) fn claim_copy(&mut self, ino: u64, copy: &Arc<File>) -> Result<(), StoreError> {
        let from = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let (dir, name) = (self.loose.dir()?, ino.to_string());
        // What a failure left there earlier counts for nothing.
        let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
        rustix::fs::linkat(rustix::fs::CWD, from, dir, &name, AtFlags::SYMLINK_FOLLOW)
            .map_err(io::Error::from)?;
        self.loosen(ino)?;
        self.loose.must_sync(ino, copy);
        self.drop_copy(ino);
        Ok(())
    }

    /// A loose file was cut: no chunk may lie behind its end.
    pub(crate) fn cut_stale(&mut self, ino: u64, size: u64) -> Result<(), StoreError> {
        let from = size.div_ceil(self.chunk_size as u64);
        self.journal.run(Statement::DropChunks, &[ino.into(), from.into()])
    }

    /// The chunks from `from` up to `to` hold nothing.
    pub(super) fn drop_chunks(&mut self, ino: u64, from: u64, to: u64) -> Result<(), StoreError> {
        if from == to {
            return Ok(());
        }
        self.journal.run(Statement::DropSomeChunks, &[ino.into(), from.into(), to.into()])
    }
}
