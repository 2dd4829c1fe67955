//! Open files.

use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::attr::drop_set_ids;
use super::base::Content;
use super::directory::read_full;
use super::lazy::Lazy;
use super::node::Body;
use super::{Attr, Caller, Make, OrErrno, Result, State, Tree};
use crate::store::{Kind, Time};

/// Result of opening a file.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// True when the kernel's cached content is still valid.
    pub unchanged: bool,
}

impl Tree {
    /// Opens a file.
    pub fn open(&self, id: u64) -> Result<Opened> {
        // Access the disk without holding the lock.
        let below = {
            let state = self.lock();
            let node = state.node(id)?;
            match (&node.body, node.delta, &node.base) {
                (Body::Closed, None, Some(path)) if node.kind() == Kind::File => {
                    Some((state.base()?, path.clone(), node.preloaded))
                }
                _ => None,
            }
        };
        let content = below.map(
            |(base, path, preloaded)| {
                if preloaded { Lazy::open(base, path) } else { base.open(&path) }
            },
        );
        let content = content.transpose().or_errno()?;
        self.lock_after_preload(id).open(id, content)
    }

    /// Creates a file and opens it; counts as a lookup.
    pub fn create(&self, parent: u64, name: &OsStr, mode: u32, who: Caller) -> Result<Attr> {
        let make = Make { mode: mode & 0o7777 | libc::S_IFREG, rdev: 0, target: None };
        self.change(|state| {
            let id = state.make(parent, name, make, who)?;
            state.open(id, None)?;
            state.meet(id, 1)
        })
    }

    /// Reads from an open file into `buffer`; a short read means the end of the file.
    pub fn read(&self, id: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut state = self.lock();
        let node = state.node(id)?;
        match &node.body {
            Body::Base(content) => {
                let content = Arc::clone(content);
                drop(state);
                content.read_at(buffer, offset).or_errno()
            }
            Body::Loose(file) | Body::Copy(file) => {
                let file = Arc::clone(file);
                drop(state);
                read_full(&file, buffer, offset).or_errno()
            }
            body => {
                let left = node.inode.size.saturating_sub(offset);
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let buffer = &mut buffer[..length];
                match (body, usize::try_from(offset)) {
                    _ if length == 0 => {}
                    (Body::Buffer { bytes, .. }, Ok(at)) => {
                        buffer.copy_from_slice(&bytes[at..at + length]);
                    }
                    _ => {
                        let (ino, size) = (node.delta.ok_or(Errno::IO)?, node.inode.size);
                        let part = offset..offset + length as u64;
                        if let Some(file) = state.store.copied_part(ino, part) {
                            drop(state);
                            return read_full(&file, buffer, offset).or_errno();
                        }
                        state.store.read(ino, offset, buffer).or_errno()?;
                        if self.copies.load(Ordering::Relaxed) {
                            state.store.copy_out(ino, size, offset, buffer);
                        }
                    }
                }
                Ok(length)
            }
        }
    }

    /// Writes to an open file. Clears the set-id bits if `kill` is true.
    pub fn write(&self, id: u64, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let plain = self.change_content(|state| state.write(id, offset, data, kill))?;
        let Some(file) = plain else { return Ok(()) };
        let written = file.write_all_at(data, offset).or_errno();
        if written.is_err() {
            // A size beyond the written data must not stay visible.
            let mut state = self.lock();
            if let (Ok(meta), Ok(node)) = (file.metadata(), state.touch_content(id)) {
                node.inode.size = meta.len();
            }
        }
        written
    }

    /// Logs what was written through a descriptor that was closed.
    pub fn flush(&self, id: u64) -> Result<()> {
        let mut state = self.lock();
        state.catch_up(id)?;
        if state.node(id)?.dirty {
            state.touch(id)?;
        }
        state.keep()
    }

    /// Waits until a file and all earlier changes are on disk.
    pub fn sync(&self, id: u64) -> Result<()> {
        let plain = self.lock().plain(id)?;
        if let Some(file) = plain {
            file.sync_data().or_errno()?;
        }
        let log = {
            let mut state = self.lock();
            state.store_body(id)?;
            state.settle()?;
            state.store.commit_to_sync().or_errno()?
        };
        log.sync_data().or_errno()
    }

    /// Handles the last close of one open file description.
    pub fn release(&self, id: u64) {
        let mut state = self.lock();
        let Ok(node) = state.node_mut(id) else { return };
        node.opens = node.opens.saturating_sub(1);
        if node.opens > 0 {
            return;
        }
        // An unlinked file is never read again. Content that cannot be stored stays in memory until
        // the next commit.
        let done = node.inode.nlink == 0 || state.store_body(id).is_ok();
        if let Ok(node) = state.node_mut(id)
            && done
        {
            node.body = Body::Closed;
        }
        state.trim(id);
    }
}

impl State {
    fn open(&mut self, id: u64, below: Option<Arc<dyn Content>>) -> Result<Opened> {
        let node = self.node(id)?;
        match node.kind() {
            Kind::File => {}
            Kind::Dir => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        let mut opened = Opened { unchanged: !node.ever_passthrough };
        if matches!(node.body, Body::Closed) {
            let body = match (node.delta, &node.base) {
                (Some(ino), _) if self.store.is_loose(ino) => {
                    Body::Loose(Arc::new(self.store.open_loose(ino).or_errno()?))
                }
                (Some(ino), _) => match self.store.copy(ino, node.inode.size) {
                    Some(copy) => Body::Copy(copy),
                    None => Body::Stored,
                },
                (None, Some(path)) => {
                    let content = match below {
                        Some(content) => content,
                        None => self.base()?.open(path).or_errno()?,
                    };
                    opened.unchanged = content.size() == node.inode.size;
                    Body::Base(content)
                }
                (None, None) => return Err(Errno::IO),
            };
            self.node_mut(id)?.body = body;
        }
        self.node_mut(id)?.opens += 1;
        Ok(opened)
    }

    /// Writes to the buffer, or returns the plain file to write to.
    fn write(
        &mut self,
        id: u64,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<Option<Arc<std::fs::File>>> {
        let ino = self.own(id)?;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        self.prepare(id, ino, end)?;
        self.drop_capability(ino)?;
        if !matches!(self.node(id)?.body, Body::Loose(_)) {
            self.need_room_for(data.len() as u64)?;
        }
        let now = Time::now();
        let node = self.touch_content(id)?;
        (node.inode.mtime, node.inode.ctime) = (now, now);
        node.inode.size = node.inode.size.max(end);
        node.preloaded = false;
        if kill {
            drop_set_ids(&mut node.inode);
        }
        match &mut node.body {
            Body::Loose(file) => Ok(Some(Arc::clone(file))),
            Body::Buffer { bytes, dirty } => {
                let (start, end) = (to_usize(offset)?, to_usize(end)?);
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
                *dirty = true;
                Ok(None)
            }
            _ => Err(Errno::IO),
        }
    }
}

pub(super) fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Errno::FBIG)
}
