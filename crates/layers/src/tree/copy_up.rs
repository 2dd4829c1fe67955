//! Copy-up: before a file of the base changes, it is copied to the layer with its directories.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::base::Content;
use super::content::SMALL;
use super::node::Body;
use super::{OrErrno, Result, State};
use crate::store::Kind;

impl State {
    /// Returns the inode of a node in the layer and copies the file up if it has none yet.
    pub(super) fn own(&mut self, id: u64) -> Result<u64> {
        self.own_up_to(id, u64::MAX)
    }

    /// Copies up like [`Self::own`], but only the first `wanted` bytes of content.
    pub(super) fn own_up_to(&mut self, id: u64, wanted: u64) -> Result<u64> {
        if let Some(ino) = self.node(id)?.delta {
            return Ok(ino);
        }
        let mut chain = vec![id];
        while let Some(place) = &self.node(chain[chain.len() - 1])?.place {
            // A deleted parent leaves the file without a name, as intended.
            match self.nodes.get(&place.parent) {
                Some(node) if node.delta.is_none() => chain.push(place.parent),
                _ => break,
            }
        }
        let mut ino = 0;
        for id in chain.into_iter().rev() {
            ino = self.copy_up(id, wanted)?;
        }
        Ok(ino)
    }

    fn copy_up(&mut self, id: u64, wanted: u64) -> Result<u64> {
        self.need_room()?;
        let base = self.base()?;
        let node = self.node(id)?;
        let (inode, kind, place) = (node.inode, node.kind(), node.place.clone());
        let path = node.base.clone().ok_or(Errno::IO)?;
        let ino = self.store.new_ino();
        match kind {
            Kind::File => self.copy_content(id, ino, &path, wanted)?,
            Kind::Symlink => {
                self.store.put_target(ino, &base.target(&path).or_errno()?).or_errno()?;
            }
            _ => {}
        }
        for (name, value) in base.xattrs(&path).or_errno()? {
            if is_kept(&name) {
                self.store.put_xattr(ino, &name, &value).or_errno()?;
            }
        }
        self.store.put_origin(ino, id, &inode).or_errno()?;
        if let Some(place) = place
            && let Some(parent) = self.nodes.get(&place.parent).and_then(|node| node.delta)
        {
            self.store.put_name(parent, &place.name, ino).or_errno()?;
        }
        let node = self.node_mut(id)?;
        node.delta = Some(ino);
        if kind != Kind::Dir {
            node.base = None;
        }
        if inode.nlink == 0 {
            self.orphans.push(id);
        }
        self.shown.insert(ino, id);
        self.touch(id)?;
        self.mark = self.store.mark();
        Ok(ino)
    }

    fn copy_content(&mut self, id: u64, ino: u64, path: &Path, wanted: u64) -> Result<()> {
        let node = self.node(id)?;
        let (open, size) = (node.opens > 0, node.inode.size.min(wanted));
        let content = match &node.body {
            Body::Base(content) => Arc::clone(content),
            _ if size == 0 => {
                let node = self.node_mut(id)?;
                node.fresh = true;
                if open {
                    node.body = Body::Stored;
                }
                return Ok(());
            }
            _ => self.base()?.open(path).or_errno()?,
        };
        if size > SMALL {
            let file = self.store.new_loose(ino).or_errno()?;
            copy(&*content, &file, size).or_errno()?;
            self.store.loosen(ino).or_errno()?;
            let file = Arc::new(file);
            self.store.must_sync(ino, &file);
            if open {
                self.node_mut(id)?.body = Body::Loose(file);
            }
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let length = content.read_at(&mut bytes, 0).or_errno()?;
        bytes.truncate(length);
        if open {
            let node = self.node_mut(id)?;
            (node.body, node.fresh) = (Body::Buffer { bytes, dirty: true }, true);
            return Ok(());
        }
        self.store.put_first_content(ino, &bytes).or_errno()
    }
}

/// Returns true for attributes that a copy keeps. ACLs (`system.`) are not supported in the view;
/// the mode alone applies.
fn is_kept(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b"system.")
}

/// Copies content into an empty file by reflink (`ioctl_ficlone(2)`) if possible, else with
/// `copy_file_range(2)`, else through a buffer. Keeps holes.
fn copy(content: &dyn Content, file: &File, size: u64) -> io::Result<()> {
    let Some(source) = content.file() else {
        copy_by_hand(content, file, 0..size)?;
        return file.set_len(size);
    };
    if rustix::fs::ioctl_ficlone(file, source).is_ok() {
        return file.set_len(size);
    }
    let mut done = 0;
    while done < size {
        let start = match rustix::fs::seek(source, SeekFrom::Data(done)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => done,
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        if start >= end {
            break;
        }
        let copied = copy_by_kernel(source, file, start..end)?;
        copy_by_hand(content, file, copied..end)?;
        done = end;
    }
    file.set_len(size)
}

/// Copies a range with `copy_file_range(2)` and returns the offset it reached.
fn copy_by_kernel(source: &File, file: &File, range: Range<u64>) -> io::Result<u64> {
    let mut done = range.start;
    while done < range.end {
        let (mut from, mut to) = (done, done);
        let length = usize::try_from(range.end - done).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), length) {
            Ok(0) | Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => break,
            Ok(count) => done += count as u64,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn copy_by_hand(content: &dyn Content, file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let mut done = range.start;
    let mut buffer = vec![0; 1 << 20];
    while done < range.end {
        let length = usize::try_from(range.end - done).unwrap_or(usize::MAX).min(buffer.len());
        match content.read_at(&mut buffer[..length], done)? {
            0 => break,
            count => {
                file.write_all_at(&buffer[..count], done)?;
                done += count as u64;
            }
        }
    }
    Ok(())
}
