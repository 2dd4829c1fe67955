//! Ranges of a file: holes, allocation, copies.

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::attr::{check_size, drop_set_ids};
use super::file::to_usize;
use super::node::Body;
use super::{Caller, OrErrno, Result, State, Tree};
use crate::store::Time;

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

impl Tree {
    /// Allocates or clears a range (fallocate(2)).
    pub fn allocate(
        &self,
        id: u64,
        offset: u64,
        length: u64,
        mode: FallocateFlags,
        who: Caller,
    ) -> Result<()> {
        self.change_content(|state| state.allocate(id, offset, length, mode, who))
    }

    /// Returns the next content, or the next hole, at or after an offset (lseek(2)).
    pub fn seek(&self, id: u64, offset: u64, hole: bool) -> Result<u64> {
        let mut state = self.lock();
        state.catch_up(id)?;
        let node = state.node(id)?;
        let size = node.inode.size;
        if offset >= size {
            return Err(Errno::NXIO);
        }
        let from = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        match (&node.body, node.delta) {
            (Body::Loose(file) | Body::Copy(file), _) => rustix::fs::seek(&**file, from),
            (Body::Base(content), _) => match content.file() {
                Some(file) => rustix::fs::seek(file, from),
                None => Ok(if hole { size } else { offset }),
            },
            (Body::Stored, Some(ino)) if hole => {
                Ok(state.store.next_hole(ino, offset).or_errno()?.min(size))
            }
            (Body::Stored, Some(ino)) => {
                let data = state.store.next_data(ino, offset).or_errno()?;
                data.filter(|data| *data < size).ok_or(Errno::NXIO)
            }
            _ => Ok(if hole { size } else { offset }),
        }
    }

    /// Copies a range from one open file to another and returns its length.
    pub(crate) fn copy_range(
        &self,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
        who: Caller,
    ) -> Result<u64> {
        let left = self.attr(from)?.inode.size.saturating_sub(from_offset);
        let length = length.min(left).min(1 << 30);
        check_size(to_offset.saturating_add(length))?;
        let mut buffer = vec![0; PIECE.min(to_usize(length)?)];
        let mut done = 0;
        while done < length {
            let piece = to_usize((length - done).min(PIECE as u64))?;
            let count = self.read(from, from_offset + done, &mut buffer[..piece])?;
            if count == 0 {
                break;
            }
            match self.write(to, to_offset + done, &buffer[..count], who.uid != 0) {
                Err(_) if done > 0 => break,
                result => result?,
            }
            done += count as u64;
        }
        Ok(done)
    }
}

impl State {
    fn allocate(
        &mut self,
        id: u64,
        offset: u64,
        length: u64,
        mode: FallocateFlags,
        who: Caller,
    ) -> Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE;
        let zero = FallocateFlags::ZERO_RANGE;
        let keep = FallocateFlags::KEEP_SIZE;
        if !(punch | zero | keep).contains(mode) {
            return Err(Errno::OPNOTSUPP);
        }
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        check_size(end)?;
        let ino = self.own(id)?;
        self.catch_up(id)?;
        let size = self.node(id)?.inode.size;
        let grown = if mode.intersects(keep | punch) { size } else { size.max(end) };
        self.prepare(id, ino, grown)?;
        if !matches!(self.node(id)?.body, Body::Loose(_)) {
            self.need_room_for(grown - size)?;
        }
        self.drop_capability(ino)?;
        match &mut self.node_mut(id)?.body {
            Body::Loose(file) => rustix::fs::fallocate(&**file, mode, offset, length)?,
            Body::Buffer { bytes, dirty } => {
                bytes.resize(to_usize(grown)?, 0);
                if mode.intersects(punch | zero) {
                    let end = to_usize(end)?.min(bytes.len());
                    let start = to_usize(offset)?.min(end);
                    bytes[start..end].fill(0);
                }
                *dirty = true;
            }
            _ => return Err(Errno::IO),
        }
        let now = Time::now();
        let inode = &mut self.touch_content(id)?.inode;
        (inode.size, inode.mtime, inode.ctime) = (grown, now, now);
        if who.uid != 0 {
            drop_set_ids(inode);
        }
        Ok(())
    }
}
