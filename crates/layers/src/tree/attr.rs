//! File attributes and their changes.

use std::ffi::OsString;

use rustix::io::Errno;

use super::node::Body;
use super::{Caller, OrErrno, Result, State, Tree};
use crate::store::{Inode, Kind, Time};

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Inode number that programs see.
    pub id: u64,
    /// Inode.
    pub inode: Inode,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
}

/// Time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The current time.
    Now,
    /// A given time.
    At(Time),
}

/// Changes of file attributes, as in setattr.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length.
    pub size: Option<u64>,
    /// Time of the last read.
    pub atime: Option<Stamp>,
    /// Time of the last write.
    pub mtime: Option<Stamp>,
}

impl Tree {
    /// Returns the attributes of a file.
    pub fn attr(&self, id: u64) -> Result<Attr> {
        let mut state = self.lock();
        state.catch_up(id)?;
        state.attr(id)
    }

    /// Returns the target of a link.
    pub fn target(&self, id: u64) -> Result<OsString> {
        let state = self.lock();
        let node = state.node(id)?;
        match (node.delta, &node.base) {
            _ if node.kind() != Kind::Symlink => Err(Errno::INVAL),
            (Some(ino), _) => state.store.target(ino).or_errno()?.ok_or(Errno::IO),
            (None, Some(path)) => state.base()?.target(path).or_errno(),
            (None, None) => Err(Errno::IO),
        }
    }

    /// Changes attributes of a file.
    pub fn set_attr(&self, id: u64, change: &Change, who: Caller) -> Result<Attr> {
        Self::change_locked(self.lock_after_preload(id), |state| {
            let result = state.set_attr(id, change, who);
            state.trim(id);
            result
        })
    }
}

impl State {
    pub(super) fn attr(&self, id: u64) -> Result<Attr> {
        let node = self.node(id)?;
        let mut inode = node.inode;
        inode.uid = self.owner.uid.unwrap_or(inode.uid);
        inode.gid = self.owner.gid.unwrap_or(inode.gid);
        if inode.is_dir() {
            inode.size = 4096;
        }
        let blocks = match &node.body {
            Body::Loose(file) => {
                rustix::fs::fstat(&**file).map_or(0, |stat| stat.st_blocks.cast_unsigned())
            }
            _ => inode.size.div_ceil(4096) * 8,
        };
        Ok(Attr { id, inode, blocks })
    }

    fn set_attr(&mut self, id: u64, change: &Change, who: Caller) -> Result<Attr> {
        let kept = change.size.unwrap_or(u64::MAX);
        let ino = self.own_up_to(id, kept)?;
        self.catch_up(id)?;
        if let Some(size) = change.size {
            self.resize(id, ino, size)?;
        }
        if self.node(id)?.passthrough.is_some() {
            self.refresh(id);
        }
        if change.size.is_some() || change.uid.is_some() || change.gid.is_some() {
            self.drop_capability(ino)?;
        }
        let now = Time::now();
        let at = |stamp| match stamp {
            Stamp::Now => now,
            Stamp::At(time) => time,
        };
        let inode = &mut self.touch(id)?.inode;
        inode.ctime = now;
        if change.size.is_some() {
            inode.mtime = now;
        }
        inode.atime = change.atime.map_or(inode.atime, at);
        inode.mtime = change.mtime.map_or(inode.mtime, at);
        inode.mode =
            change.mode.map_or(inode.mode, |mode| inode.mode & libc::S_IFMT | mode & 0o7777);
        let chown = change.uid.is_some() || change.gid.is_some();
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        if chown && change.mode.is_none() || change.size.is_some() && who.uid != 0 {
            drop_set_ids(inode);
        }
        self.attr(id)
    }

    /// Removes a file's capabilities, as the kernel does on a change of owner or content
    /// (capabilities(7)).
    pub(super) fn drop_capability(&mut self, ino: u64) -> Result<()> {
        let name = std::ffi::OsStr::new("security.capability");
        match self.store.xattr(ino, name).or_errno()? {
            Some(_) => self.store.drop_xattr(ino, name).or_errno(),
            None => Ok(()),
        }
    }
}

/// Clears the set-id bits, as the kernel does on a write or a change of owner. Keeps a set-group-ID
/// bit without group execute permission, which marks mandatory locking (chown(2)).
pub(super) fn drop_set_ids(inode: &mut Inode) {
    if inode.kind() == Kind::Dir {
        return;
    }
    inode.mode &= !libc::S_ISUID;
    if inode.mode & libc::S_IXGRP != 0 {
        inode.mode &= !libc::S_ISGID;
    }
}

/// Rejects sizes beyond the kernel's maximum offset: `EFBIG`, ftruncate(2).
pub(super) fn check_size(size: u64) -> Result<()> {
    if size > i64::MAX as u64 { Err(Errno::FBIG) } else { Ok(()) }
}
