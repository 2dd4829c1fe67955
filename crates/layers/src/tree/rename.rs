//! Renaming. A moved directory of the base keeps its entries and records their source.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::node::NodeName;
use super::{OrErrno, Result, State, Tree};
use crate::store::{Rest, Time};

/// Handling of an existing entry at the new name, as in renameat2(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Replace it.
    Replace,
    /// Fail.
    NoReplace,
    /// Exchange the two entries.
    Exchange,
}

/// Name in a directory.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    parent: u64,
    name: &'a OsStr,
}

impl Tree {
    /// Moves `name` in `parent` to `new_name` in `new_parent`.
    pub fn rename(
        &self,
        (parent, name): (u64, &OsStr),
        (new_parent, new_name): (u64, &OsStr),
        how: Rename,
    ) -> Result<()> {
        if new_name.len() > 255 {
            return Err(Errno::NAMETOOLONG);
        }
        let (from, to) = (At { parent, name }, At { parent: new_parent, name: new_name });
        self.change(|state| state.rename(from, to, how))
    }
}

impl State {
    fn rename(&mut self, from: At<'_>, to: At<'_>, how: Rename) -> Result<()> {
        let id = self.find(from.parent, from.name)?.ok_or(Errno::NOENT)?;
        let target = self.find(to.parent, to.name)?;
        match (target, how) {
            (Some(_), Rename::NoReplace) => return Err(Errno::EXIST),
            (None, Rename::Exchange) => return Err(Errno::NOENT),
            (Some(target), _) if target == id => return Ok(()),
            (Some(target), Rename::Exchange) => return self.exchange(from, id, to, target),
            (Some(target), _) => self.check_replace(id, target)?,
            (None, _) => {}
        }
        self.need_room_to_hide(from.parent, from.name)?;
        let ino = self.own(id)?;
        let (dir, new_dir) = (self.own(from.parent)?, self.own(to.parent)?);
        if let Some(target) = target {
            self.detach(to.parent, new_dir, to.name)?;
            self.lose_name(to.parent, to.name, target)?;
        }
        self.detach(from.parent, dir, from.name)?;
        self.attach(to.parent, new_dir, to.name, ino)?;
        self.settle_in(id, ino, to)?;
        let is_dir = self.node(id)?.inode.is_dir();
        let replaced = target.is_some_and(|_| is_dir);
        self.touch_dir(from.parent, -i32::from(is_dir))?;
        self.touch_dir(to.parent, i32::from(is_dir) - i32::from(replaced))?;
        if let Some(target) = target {
            self.trim(target);
        }
        Ok(())
    }

    fn check_replace(&self, id: u64, target: u64) -> Result<()> {
        let (is_dir, onto_dir) = (self.node(id)?.inode.is_dir(), self.node(target)?.inode.is_dir());
        match (is_dir, onto_dir) {
            (true, true) => self.check_empty_dir(target),
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            (false, false) => Ok(()),
        }
    }

    fn exchange(&mut self, from: At<'_>, id: u64, to: At<'_>, other: u64) -> Result<()> {
        let (ino, other_ino) = (self.own(id)?, self.own(other)?);
        let (dir, new_dir) = (self.own(from.parent)?, self.own(to.parent)?);
        self.attach(from.parent, dir, from.name, other_ino)?;
        self.attach(to.parent, new_dir, to.name, ino)?;
        self.settle_in(id, ino, to)?;
        self.settle_in(other, other_ino, from)?;
        let subdirs =
            i32::from(self.node(id)?.inode.is_dir()) - i32::from(self.node(other)?.inode.is_dir());
        self.touch_dir(from.parent, -subdirs)?;
        self.touch_dir(to.parent, subdirs)
    }

    /// Updates a renamed node. A directory keeps showing the same entries.
    fn settle_in(&mut self, id: u64, ino: u64, at: At<'_>) -> Result<()> {
        let node = self.touch(id)?;
        node.inode.ctime = Time::now();
        node.place = Some(NodeName::new(at.parent, at.name));
        if !node.inode.is_dir() {
            return Ok(());
        }
        let rest = match node.base.clone() {
            Some(path) => Rest::From(path.into()),
            None if self.below(at.parent, at.name)?.is_some() => Rest::Opaque,
            None => Rest::Default,
        };
        // A directory back at its source path needs no row, unless that path is whited out: then
        // only the row keeps its entries visible.
        self.store.put_rest(ino, &rest).or_errno()
    }
}
