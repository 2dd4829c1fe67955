//! A copy of a tree: permissions, times, links and attributes as they are, one owner for all.

use std::ffi::{CStr, CString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, XattrFlags};

use super::step::{StepError, file};

/// Copies `from` to `to`, which is not there yet. What is no file, directory or link is refused: reading
/// it could wait for ever, and a copy of it would be something else.
pub(crate) fn copy_tree(from: &Path, to: &Path, owner: (u32, u32)) -> Result<(), StepError> {
    let about = fs::symlink_metadata(from).map_err(file("look at", from))?;
    let kind = about.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(from).map_err(file("read", from))?;
        symlink(target, to).map_err(file("make", to))?;
        return lchown(to, Some(owner.0), Some(owner.1)).map_err(file("give away", to));
    }
    if kind.is_dir() {
        copy_dir(from, to, owner)?;
    } else if kind.is_file() {
        copy_file(from, to)?;
    } else {
        return Err(StepError::Special(from.to_owned()));
    }
    // In this order: a change of the owner takes bits of the mode away, a change of either the time.
    copy_attributes(from, to)?;
    lchown(to, Some(owner.0), Some(owner.1)).map_err(file("give away", to))?;
    rustix::fs::chmod(to, Mode::from_raw_mode(about.mode() & 0o7777))
        .map_err(file("change", to))?;
    set_times(to, &about).map_err(file("change", to))
}

fn copy_dir(from: &Path, to: &Path, owner: (u32, u32)) -> Result<(), StepError> {
    fs::create_dir(to).map_err(file("make", to))?;
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
    let mut target = open(to, flags, Mode::RUSR | Mode::WUSR).map_err(file("make", to))?;
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

/// Users' attributes and access lists. Those of the security modules belong to the file they are on.
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
