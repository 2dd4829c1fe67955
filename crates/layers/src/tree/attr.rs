//! What a file is, and changing that.

use std::ffi::OsString;

use rustix::io::Errno;

use super::node::Body;
use super::{Caller, OrErrno, Result, State, Tree};
use crate::store::{Inode, Kind, Time};

/// What a program is told of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The number that it is known by.
    pub id: u64,
    /// The rest.
    pub inode: Inode,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The present.
    Now,
    /// Another.
    At(Time),
}

/// What to change of a file.
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
    /// Last read.
    pub atime: Option<Stamp>,
    /// Last write.
    pub mtime: Option<Stamp>,
}

impl Tree {
    /// What a file is.
    pub fn attr(&self, id: u64) -> Result<Attr> {
        let mut state = self.lock();
        state.catch_up(id)?;
        state.attr(id)
    }

    /// Where a link points.
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

    /// Changes what a file is.
    pub fn set_attr(&self, id: u64, change: &Change, who: Caller) -> Result<Attr> {
        Self::change_locked(self.lock_fed(id), |state| {
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
        if self.node(id)?.past.is_some() {
            self.look(id);
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

    /// A file's capabilities end when it changes hands or content.
    pub(super) fn drop_capability(&mut self, ino: u64) -> Result<()> {
        let name = std::ffi::OsStr::new("security.capability");
        match self.store.xattr(ino, name).or_errno()? {
            Some(_) => self.store.drop_xattr(ino, name).or_errno(),
            None => Ok(()),
        }
    }
}

/// Takes the set-id bits away, as the kernel does when a file is written or given away: a
/// set-group-id bit without the right to execute meant locking once, and stays.
pub(super) fn drop_set_ids(inode: &mut Inode) {
    if inode.kind() == Kind::Dir {
        return;
    }
    inode.mode &= !libc::S_ISUID;
    if inode.mode & libc::S_IXGRP != 0 {
        inode.mode &= !libc::S_ISGID;
    }
}

/// The largest file: what the kernel can address.
pub(super) fn check_size(size: u64) -> Result<()> {
    if size > i64::MAX as u64 { Err(Errno::FBIG) } else { Ok(()) }
}
