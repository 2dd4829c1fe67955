//! Storage of file content and its transitions. Small files are buffered while open and written to
//! the database on close; a file that grows becomes loose.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;

use super::attr::check_size;
use super::node::Body;
use super::{OrErrno, Result, State};
use crate::store::Kind;

/// Maximum length of files that are buffered in memory while they are written.
pub(super) const SMALL: u64 = 128 << 10;

impl State {
    /// Makes the content of an open file writable up to `end`.
    pub(super) fn prepare(&mut self, id: u64, ino: u64, end: u64) -> Result<()> {
        check_size(end)?;
        let node = self.node(id)?;
        let size = node.inode.size;
        let small = end.max(size) <= SMALL;
        match &node.body {
            Body::Loose(_) => {}
            Body::Buffer { .. } if small => {}
            Body::Buffer { .. } => self.loosen(id, ino)?,
            Body::Copy(_) => self.claim_copy(id)?,
            _ if self.store.is_loose(ino) => {
                let file = self.store.open_loose(ino).or_errno()?;
                self.node_mut(id)?.body = Body::Loose(Arc::new(file));
            }
            _ if size <= SMALL => {
                let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
                if !bytes.is_empty() {
                    self.store.read(ino, 0, &mut bytes).or_errno()?;
                }
                self.node_mut(id)?.body = Body::Buffer { bytes, dirty: false };
                if !small {
                    self.loosen(id, ino)?;
                }
            }
            _ => {
                let file = self.store.take_out(ino, size).or_errno()?;
                self.node_mut(id)?.body = Body::Loose(file);
                self.mark = self.store.mark();
            }
        }
        Ok(())
    }

    /// Makes the copy of an open file its content.
    pub(super) fn claim_copy(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        let (Body::Copy(file), Some(ino)) = (&node.body, node.delta) else { return Ok(()) };
        let file = Arc::clone(file);
        self.store.claim_copy(ino, &file).or_errno()?;
        self.node_mut(id)?.body = Body::Loose(file);
        self.mark = self.store.mark();
        Ok(())
    }

    /// Moves buffered content to a loose file.
    fn loosen(&mut self, id: u64, ino: u64) -> Result<()> {
        let file = self.store.new_loose(ino).or_errno()?;
        if let Body::Buffer { bytes, .. } = &self.node(id)?.body {
            file.write_all_at(bytes, 0).or_errno()?;
        }
        self.store.loosen(ino).or_errno()?;
        let file = Arc::new(file);
        if !self.node(id)?.fresh {
            self.store.must_sync(ino, &file);
        }
        let node = self.node_mut(id)?;
        (node.body, node.fresh) = (Body::Loose(file), false);
        self.mark = self.store.mark();
        Ok(())
    }

    /// Sets the length of a file of the layer.
    pub(super) fn resize(&mut self, id: u64, ino: u64, size: u64) -> Result<()> {
        check_size(size)?;
        let node = self.node(id)?;
        match node.kind() {
            Kind::File => {}
            Kind::Dir => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        let old = node.inode.size;
        let closed = matches!(node.body, Body::Closed | Body::Stored);
        if closed && !self.store.is_loose(ino) && size <= old {
            if size < old && !node.fresh {
                self.store.cut(ino, size).or_errno()?;
            }
        } else {
            if size > old {
                self.need_room()?;
            }
            self.prepare(id, ino, size)?;
            match &mut self.node_mut(id)?.body {
                Body::Buffer { bytes, dirty } => {
                    bytes.resize(usize::try_from(size).unwrap_or(0), 0);
                    *dirty = true;
                }
                Body::Loose(file) => {
                    file.set_len(size).or_errno()?;
                    if size < old {
                        self.store.cut_stale(ino, size).or_errno()?;
                    }
                }
                _ => {}
            }
        }
        let node = self.touch(id)?;
        node.inode.size = size;
        if node.opens == 0 {
            self.store_body(id)?;
            self.node_mut(id)?.body = Body::Closed;
        }
        Ok(())
    }

    /// Writes buffered content to the database.
    pub(super) fn store_body(&mut self, id: u64) -> Result<()> {
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        let (Some(ino), Body::Buffer { bytes, dirty: dirty @ true }) = (node.delta, &mut node.body)
        else {
            return Ok(());
        };
        if node.fresh {
            self.store.put_first_content(ino, bytes).or_errno()?;
        } else {
            self.store.put_content(ino, bytes).or_errno()?;
        }
        (*dirty, node.fresh) = (false, false);
        self.mark = self.store.mark();
        Ok(())
    }

    /// Returns the plain file that holds an open file's content, if there is one.
    pub(super) fn plain(&self, id: u64) -> Result<Option<Arc<File>>> {
        Ok(match &self.node(id)?.body {
            Body::Loose(file) => Some(Arc::clone(file)),
            _ => None,
        })
    }
}
