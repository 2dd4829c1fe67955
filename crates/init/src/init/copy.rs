//! Copy of a tree, with the same permissions, times, links and attributes, and with one owner for all files.

use std::ffi::{CStr, CString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, XattrFlags};

use super::step::{StepError, file};

/// Copies `from` to `to`, which must not exist. Refuses FIFOs, sockets and devices: reading them could block forever.
pub(crate) fn copy_tree(from: &Path, to: &Path, owner: (u32, u32)) -> Result<(), StepError> {
    let about = fs::symlink_metadata(from).map_err(file("inspect", from))?;
    let kind = about.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(from).map_err(file("read", from))?;
        symlink(target, to).map_err(file("create", to))?;
        return lchown(to, Some(owner.0), Some(owner.1)).map_err(file("change the owner of", to));
    }
    if kind.is_dir() {
        copy_dir(from, to, owner)?;
    } else if kind.is_file() {
        copy_file(from, to)?;
    } else {
        return Err(StepError::Special(from.to_owned()));
    }
    // The order matters: a change of the owner clears set-id bits (chown(2)), and changes of either update the times.
    copy_attributes(from, to)?;
    lchown(to, Some(owner.0), Some(owner.1)).map_err(file("change the owner of", to))?;
    rustix::fs::chmod(to, Mode::from_raw_mode(about.mode() & 0o7777))
        .map_err(file("change the attributes of", to))?;
    set_times(to, &about).map_err(file("change the attributes of", to))
}

fn copy_dir(from: &Path, to: &Path, owner: (u32, u32)) -> Result<(), StepError> {
    fs::create_dir(to).map_err(file("create", to))?;
    for entry in fs::read_dir(from).map_err(file("list", from))? {
        let name = entry.map_err(file("list", from))?.file_name();
        copy_tree(&from.join(&name), &to.join(&name), owner)?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), StepError> {
    let open = |path, flags, mode| {
        rustix::fs::open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode).map(File::from)
    };
    let mut source = open(from, OFlags::RDONLY, Mode::empty()).map_err(file("read", from))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut target = open(to, flags, Mode::RUSR | Mode::WUSR).map_err(file("create", to))?;
    io::copy(&mut source, &mut target).map_err(file("copy", from))?;
    Ok(())
}

fn set_times(path: &Path, about: &Metadata) -> Result<(), rustix::io::Errno> {
    let time = |tv_sec, nanoseconds: i64| Timespec { tv_sec, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(about.atime(), about.atime_nsec()),
        last_modification: time(about.mtime(), about.mtime_nsec()),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Copies user attributes and access control lists. Attributes of security modules apply only to the original file.
fn copy_attributes(from: &Path, to: &Path) -> Result<(), StepError> {
    let mut names = vec![0; 64 << 10];
    let length = match rustix::fs::llistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(rustix::io::Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(file("read the attributes of", from)(error)),
    };
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        if name.to_bytes().starts_with(b"user.") || name.to_bytes().starts_with(b"system.posix_acl")
        {
            copy_attribute(from, to, &name.to_owned())?;
        }
    }
    Ok(())
}

fn copy_attribute(from: &Path, to: &Path, name: &CString) -> Result<(), StepError> {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::lgetxattr(from, name.as_c_str(), &mut value[..])
        .map_err(file("read the attributes of", from))?;
    rustix::fs::lsetxattr(to, name.as_c_str(), &value[..length], XattrFlags::empty())
        .map_err(file("set the attributes of", to))
}

#[cfg(test)]
mod tests;
