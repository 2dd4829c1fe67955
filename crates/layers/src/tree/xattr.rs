//! Extended attributes of the view.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::{OrErrno, Result, State, Tree};
use crate::store::Time;

/// Maximum length of a value, as on most file systems.
const LONGEST: usize = 65536;

impl Tree {
    /// Returns the value of an attribute.
    pub(crate) fn xattr(&self, id: u64, name: &OsStr) -> Result<Vec<u8>> {
        check_name(name)?;
        let state = self.lock();
        let value = match state.node(id)?.delta {
            Some(ino) => state.store.xattr(ino, name).or_errno()?,
            None => {
                state.base_xattrs(id)?.into_iter().find(|(found, _)| found == name).map(|x| x.1)
            }
        };
        value.ok_or(Errno::NODATA)
    }

    /// Returns the names of all attributes.
    pub fn xattrs(&self, id: u64) -> Result<Vec<OsString>> {
        let state = self.lock();
        match state.node(id)?.delta {
            Some(ino) => state.store.xattrs(ino).or_errno(),
            None => Ok(state.base_xattrs(id)?.into_iter().map(|(name, _)| name).collect()),
        }
    }

    /// Sets an attribute.
    pub(crate) fn set_xattr(
        &self,
        id: u64,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        check_name(name)?;
        if value.len() > LONGEST {
            return Err(Errno::NOSPC);
        }
        self.change(|state| {
            let ino = state.own(id)?;
            state.need_room()?;
            let there = state.store.xattr(ino, name).or_errno()?.is_some();
            if there && flags.contains(XattrFlags::CREATE) {
                return Err(Errno::EXIST);
            }
            if !there && flags.contains(XattrFlags::REPLACE) {
                return Err(Errno::NODATA);
            }
            state.store.put_xattr(ino, name, value).or_errno()?;
            state.touch(id)?.inode.ctime = Time::now();
            Ok(())
        })
    }

    /// Removes an attribute.
    pub(crate) fn remove_xattr(&self, id: u64, name: &OsStr) -> Result<()> {
        self.xattr(id, name)?;
        self.change(|state| {
            let ino = state.own(id)?;
            state.store.drop_xattr(ino, name).or_errno()?;
            state.touch(id)?.inode.ctime = Time::now();
            Ok(())
        })
    }
}

impl State {
    fn base_xattrs(&self, id: u64) -> Result<Vec<(OsString, Vec<u8>)>> {
        let Some(path) = &self.node(id)?.base else { return Ok(Vec::new()) };
        let mut found = self.base()?.xattrs(path).or_errno()?;
        found.retain(|(name, _)| check_name(name).is_ok());
        Ok(found)
    }
}

/// Rejects ACLs (`system.`): without `FUSE_POSIX_ACL`, the kernel does not enforce them on this mount.
fn check_name(name: &OsStr) -> Result<()> {
    match name.as_bytes() {
        name if name.starts_with(b"system.") => Err(Errno::OPNOTSUPP),
        name if name.len() > 255 => Err(Errno::RANGE),
        _ => Ok(()),
    }
}
