//! Creation of files, directories, links and names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;

use super::node::{Node, NodeName};
use super::{Attr, Caller, OrErrno, ROOT, Result, State, Tree};
use crate::store::{Inode, Kind, Rest, Time};

/// Maximum number of links of a file, as on ext4.
const MANY: u32 = 65_000;

/// Attributes of a new file.
#[derive(Debug, Clone, Copy)]
pub struct Make<'a> {
    /// Type and permission bits.
    pub mode: u32,
    /// Device number.
    pub rdev: u64,
    /// Target of a link.
    pub target: Option<&'a OsStr>,
}

impl Tree {
    /// Creates a file; counts as a lookup.
    pub fn make(&self, parent: u64, name: &OsStr, make: Make<'_>, who: Caller) -> Result<Attr> {
        self.change(|state| {
            let id = state.make(parent, name, make, who)?;
            state.meet(id, 1)
        })
    }

    /// Adds a name to a file.
    pub fn link(&self, id: u64, parent: u64, name: &OsStr) -> Result<Attr> {
        self.change(|state| {
            state.link(id, parent, name)?;
            state.meet(id, 1)
        })
    }
}

impl State {
    pub(super) fn make(
        &mut self,
        parent: u64,
        name: &OsStr,
        make: Make<'_>,
        who: Caller,
    ) -> Result<u64> {
        self.check_new(parent, name)?;
        let dir = self.own(parent)?;
        let inode = new_inode(&self.node(parent)?.inode, make, who)?;
        let ino = self.store.new_ino();
        self.attach(parent, dir, name, ino)?;
        if let Some(target) = make.target {
            self.store.put_target(ino, target).or_errno()?;
        }
        let is_dir = inode.is_dir();
        if is_dir && self.below(parent, name)?.is_some() {
            self.store.put_rest(ino, &Rest::Opaque).or_errno()?;
        }
        let mut node = Node::new(inode, Some(NodeName::new(parent, name)));
        (node.delta, node.fresh) = (Some(ino), true);
        self.nodes.insert(ino, node);
        self.touch(ino)?;
        self.touch_dir(parent, i32::from(is_dir))?;
        Ok(ino)
    }

    fn link(&mut self, id: u64, parent: u64, name: &OsStr) -> Result<()> {
        self.check_new(parent, name)?;
        let inode = self.node(id)?.inode;
        if inode.is_dir() {
            return Err(Errno::PERM);
        }
        if inode.nlink >= MANY {
            return Err(Errno::MLINK);
        }
        let ino = self.own(id)?;
        let dir = self.own(parent)?;
        self.attach(parent, dir, name, ino)?;
        let node = self.touch(id)?;
        node.inode.nlink += 1;
        node.inode.ctime = Time::now();
        node.place = Some(NodeName::new(parent, name));
        self.touch_dir(parent, 0)
    }

    /// Checks that a name is free. The kernel does so too; internal callers rely on this check.
    fn check_new(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        if name.len() > 255 {
            return Err(Errno::NAMETOOLONG);
        }
        self.need_room()?;
        match self.find(parent, name)? {
            Some(_) => Err(Errno::EXIST),
            None => Ok(()),
        }
    }

    /// Adds a name to a directory of the layer.
    pub(super) fn attach(&mut self, parent: u64, dir: u64, name: &OsStr, ino: u64) -> Result<()> {
        self.store.put_name(dir, name, ino).or_errno()?;
        if let Some(path) = self.view_path(parent, name) {
            self.store.drop_whiteout(&path).or_errno()?;
        }
        Ok(())
    }

    /// Returns the path of a name in the view, or `None` if its directory has none.
    pub(super) fn view_path(&self, parent: u64, name: &OsStr) -> Option<PathBuf> {
        let mut names = vec![name];
        let mut at = parent;
        while at != ROOT {
            let place = self.nodes.get(&at)?.place.as_ref()?;
            names.push(&place.name);
            at = place.parent;
            // A damaged database can make a directory its own parent.
            if names.len() > 4096 {
                return None;
            }
        }
        Some(names.iter().rev().collect())
    }
}

fn new_inode(parent: &Inode, make: Make<'_>, who: Caller) -> Result<Inode> {
    let kind = Kind::of(make.mode).ok_or(Errno::INVAL)?;
    // A set-group-ID directory passes its group on, and to directories also the bit (inode(7)).
    let inherits = parent.mode & libc::S_ISGID != 0;
    let bit = if inherits && kind == Kind::Dir { libc::S_ISGID } else { 0 };
    let now = Time::now();
    Ok(Inode {
        mode: make.mode | bit,
        nlink: if kind == Kind::Dir { 2 } else { 1 },
        uid: who.uid,
        gid: if inherits { parent.gid } else { who.gid },
        size: make.target.map_or(0, |target| target.as_bytes().len() as u64),
        atime: now,
        mtime: now,
        ctime: now,
        rdev: make.rdev,
    })
}
