//! Removal of names.

use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::io::Errno;

use super::lookup::found;
use super::{OrErrno, Result, State, Tree};
use crate::store::Time;

impl Tree {
    /// Removes a name of a file.
    pub fn unlink(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.change(|state| {
            let id = state.find(parent, name)?.ok_or(Errno::NOENT)?;
            if state.node(id)?.inode.is_dir() {
                return Err(Errno::ISDIR);
            }
            state.remove(parent, name, id)
        })
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: u64, name: &OsStr) -> Result<()> {
        self.change(|state| {
            let id = state.find(parent, name)?.ok_or(Errno::NOENT)?;
            state.check_empty_dir(id)?;
            state.remove(parent, name, id)
        })
    }
}

impl State {
    pub(super) fn check_empty_dir(&self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        if !node.inode.is_dir() {
            return Err(Errno::NOTDIR);
        }
        if let Some(ino) = node.delta
            && self.store.has_names(ino).or_errno()?
        {
            return Err(Errno::NOTEMPTY);
        }
        let Some(path) = &node.base else { return Ok(()) };
        for listed in found(self.base()?.list(path))?.unwrap_or_default() {
            if !self.store.is_gone(&path.join(&listed.name)).or_errno()? {
                return Err(Errno::NOTEMPTY);
            }
        }
        Ok(())
    }

    fn remove(&mut self, parent: u64, name: &OsStr, id: u64) -> Result<()> {
        self.need_room_to_hide(parent, name)?;
        let dir = self.own(parent)?;
        self.detach(parent, dir, name)?;
        self.lose_name(parent, name, id)?;
        self.touch_dir(parent, -i32::from(self.node(id)?.inode.is_dir()))?;
        self.trim(id);
        Ok(())
    }

    /// Returns the path of a name in the base, even if it is whited out.
    pub(super) fn below(&self, parent: u64, name: &OsStr) -> Result<Option<PathBuf>> {
        let Some(dir) = &self.node(parent)?.base else { return Ok(None) };
        let path = dir.join(name);
        Ok(found(self.base()?.stat(&path))?.map(|_| path))
    }

    /// Removes a name from a directory of the layer and whites it out in the base.
    pub(super) fn detach(&mut self, parent: u64, dir: u64, name: &OsStr) -> Result<()> {
        self.store.drop_name(dir, name).or_errno()?;
        if let Some(path) = self.below(parent, name)?
            && !self.store.is_gone(&path).or_errno()?
        {
            self.store.put_whiteout(&path).or_errno()?;
        }
        Ok(())
    }

    /// Drops a name of a node. Without names, it lives until it has no users.
    pub(super) fn lose_name(&mut self, parent: u64, name: &OsStr, id: u64) -> Result<()> {
        let node = self.touch(id)?;
        if node.is_at(parent, name) {
            node.place = None;
        }
        let left = if node.inode.is_dir() { 0 } else { node.inode.nlink.saturating_sub(1) };
        (node.inode.nlink, node.inode.ctime) = (left, Time::now());
        match node.delta {
            None if left > 0 => {
                let names = self.unlinked.entry(id).or_default();
                *names += 1;
                self.store.put_unlinked(id, *names).or_errno()?;
            }
            Some(_) if left == 0 => self.orphans.push(id),
            _ => {}
        }
        Ok(())
    }
}
