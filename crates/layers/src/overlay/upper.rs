//! Upper directory of an overlay, read name by name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::change::{LayerError, Meta, Node};

/// Prefix of the attributes that overlayfs reserves with `userxattr`.
const RESERVED: &[u8] = b"user.overlay.";
/// Prefix under which overlayfs stores a user's attribute with the reserved prefix.
const ESCAPED: &[u8] = b"user.overlay.overlay.";

/// Length of the pieces in which long paths are looked up, below `PATH_MAX`.
const PART: usize = 2048;

/// Stored extended attribute: name and value.
pub(super) type Attribute = (Vec<u8>, Vec<u8>);

/// Upper directory.
#[derive(Debug)]
pub(super) struct Upper {
    root: OwnedFd,
    path: PathBuf,
}

/// Entry of one layer for one name.
#[derive(Debug)]
pub(super) enum Said {
    /// Whiteout, which hides lower layers.
    Gone,
    /// File or directory. A directory may be merged with lower layers.
    Node(Node),
}

impl Upper {
    /// Opens the directory of a layer.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = DIR.union(OFlags::NOFOLLOW);
        Ok(Self { root: fs::open(path, flags, Mode::empty())?, path: path.to_path_buf() })
    }

    /// Opens a directory of the layer; `None` if the layer has no directory there. The empty path is the top.
    pub(super) fn dir(&self, below: &Path) -> Result<Option<OwnedFd>, LayerError> {
        match lookup(&self.root, below, DIR) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(self.failed(below)(error)),
        }
    }

    /// Returns the layer's entry for a path, if any.
    pub(super) fn look(&self, path: &Path) -> Result<Option<Said>, LayerError> {
        let Some(dir) = self.dir(path.parent().unwrap_or(Path::new("")))? else { return Ok(None) };
        match read(&dir, path.file_name().unwrap_or_default()) {
            Ok(said) => Ok(Some(said)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed(path)(error)),
        }
    }

    /// Opens a regular file of the layer for reading.
    pub(super) fn file(&self, path: &Path) -> Result<std::fs::File, LayerError> {
        let failed = self.failed(path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = lookup(&self.root, path, flags).map_err(&failed)?;
        let kind = FileType::from_raw_mode(fs::fstat(&file).map_err(&failed)?.st_mode);
        if kind == FileType::RegularFile { Ok(file.into()) } else { Err(failed(Errno::INVAL)) }
    }

    /// Returns the names in a directory, each with the layer's entry.
    pub(super) fn entries(
        &self,
        dir: &OwnedFd,
        at: &Path,
    ) -> Result<Vec<(OsString, Said)>, LayerError> {
        let failed = self.failed(at);
        let mut found = Vec::new();
        for entry in fs::Dir::read_from(dir).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match read(dir, name) {
                Ok(said) => found.push((name.to_owned(), said)),
                // The session keeps running while its layer is read.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(self.failed(&at.join(name))(error)),
            }
        }
        Ok(found)
    }

    /// Returns the names of the user's attributes.
    pub(super) fn xattrs(&self, path: &Path) -> Result<Vec<OsString>, LayerError> {
        let dir = lookup(&self.root, path.parent().unwrap_or(Path::new("")), DIR);
        let failed = self.failed(path);
        let names = attributes(&dir.map_err(&failed)?, path.file_name().unwrap_or_default());
        Ok(names.map_err(failed)?.into_iter().filter_map(of_the_user).collect())
    }

    /// Returns true if the kernel marked an entry as copied up: `overlay.origin`, overlayfs.rst.
    pub(super) fn is_copy(&self, path: &Path) -> Result<bool, LayerError> {
        let dir = lookup(&self.root, path.parent().unwrap_or(Path::new("")), DIR);
        let failed = self.failed(path);
        let name = path.file_name().unwrap_or_default();
        has(&dir.map_err(&failed)?, name, b"user.overlay.origin").map_err(failed)
    }

    /// Returns the stored attributes of an entry, without those of overlayfs.
    pub(super) fn raw_attributes(&self, path: &Path) -> Result<Vec<Attribute>, LayerError> {
        let failed = self.failed(path);
        let dir = lookup(&self.root, path.parent().unwrap_or(Path::new("")), DIR);
        let dir = dir.map_err(&failed)?;
        let name = path.file_name().unwrap_or_default();
        let names = attributes(&dir, name).map_err(&failed)?;
        let own = |name: &Vec<u8>| !name.starts_with(RESERVED) || name.starts_with(ESCAPED);
        let mut found = Vec::new();
        for attribute in names.into_iter().filter(own) {
            let mut value = vec![0; 1 << 16];
            let length = fs::lgetxattr(through(&dir, name), &*attribute, value.as_mut_slice());
            value.truncate(length.map_err(&failed)?);
            found.push((attribute, value));
        }
        Ok(found)
    }

    fn failed(&self, below: &Path) -> impl Fn(Errno) -> LayerError {
        let path = self.path.join(below);
        move |error| LayerError::Io { path: path.clone(), source: error.into() }
    }
}

const DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens a path below a directory without following symlinks. If a session has removed its owner's access to an entry,
/// restores the access, because the layer could not be read otherwise.
fn lookup(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match step_down(root, path, flags) {
        Err(Errno::ACCESS) => {
            unlock_path(root, path)?;
            step_down(root, path, flags)
        }
        found => found,
    }
}

/// Restores the owner's access to every component of a path.
fn unlock_path(root: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let mut here = step_down(root, Path::new(""), DIR)?;
    for name in path {
        unlock(&here, name)?;
        match fs::openat(&here, name, DIR | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => here = next,
            Err(Errno::NOTDIR | Errno::LOOP) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Restores the owner's access to one entry. Changes it by inode, so that a symlink in its place is not followed.
fn unlock(dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let entry =
        fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fs::fstat(&entry)?;
    let needed = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => 0o700,
        FileType::RegularFile => 0o400,
        _ => return Ok(()),
    };
    let mode = stat.st_mode & 0o7777;
    if mode & needed == needed {
        return Ok(());
    }
    let path = Path::new("/proc/self/fd").join(entry.as_raw_fd().to_string());
    fs::chmod(path, Mode::from_raw_mode(mode | needed))
}

/// Opens a path in pieces. A session may create a tree deeper than `PATH_MAX`.
fn step_down(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let step = |from: &OwnedFd, part: &Path, flags| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        fs::openat2(from, part, flags, Mode::empty(), resolve)
    };
    let (mut here, mut part) = (None, PathBuf::new());
    for name in path.components() {
        if part.as_os_str().len() + name.as_os_str().len() > PART {
            here = Some(step(here.as_ref().unwrap_or(root), &part, DIR)?);
            part.clear();
        }
        part.push(name);
    }
    step(here.as_ref().unwrap_or(root), &part, flags)
}

fn read(dir: &OwnedFd, name: &OsStr) -> Result<Said, Errno> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let meta = meta(&stat);
    Ok(Said::Node(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Node::Dir { meta, opaque: is_opaque(dir, name)? },
        FileType::RegularFile => {
            if stat.st_size == 0 && has(dir, name, b"user.overlay.whiteout")? {
                return Ok(Said::Gone);
            }
            Node::File { meta, size: u64::try_from(stat.st_size).unwrap_or(0) }
        }
        FileType::Symlink => {
            let target = fs::readlinkat(dir, name, Vec::new())?.into_bytes();
            Node::Symlink { meta, target: OsString::from_vec(target) }
        }
        FileType::CharacterDevice if stat.st_rdev == 0 => return Ok(Said::Gone),
        _ => Node::Special { meta: Meta { mode: stat.st_mode, ..meta } },
    }))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "the widths differ by architecture; nanoseconds fit"
)]
fn meta(stat: &Stat) -> Meta {
    Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        links: stat.st_nlink as u64,
    }
}

/// Returns true for an opaque directory, which has the value `y`. The value `x` means that a directory contains
/// whiteouts stored as attributes: Documentation/filesystems/overlayfs.rst.
fn is_opaque(dir: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let mut value = [0; 8];
    let open = || fs::openat(dir, name, DIR | OFlags::NOFOLLOW, Mode::empty());
    let opened = match open() {
        Err(Errno::ACCESS) => {
            unlock(dir, name)?;
            open()?
        }
        opened => opened?,
    };
    match fs::fgetxattr(&opened, c"user.overlay.opaque", &mut value[..]) {
        Ok(length) => Ok(value[..length] == *b"y"),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(error),
    }
}

fn has(dir: &OwnedFd, name: &OsStr, attribute: &[u8]) -> Result<bool, Errno> {
    Ok(attributes(dir, name)?.iter().any(|name| name == attribute))
}

/// Returns the attributes of an entry by a path through the directory's descriptor, which also works for entries that
/// cannot be opened for reading. Symlinks are not followed.
fn attributes(dir: &OwnedFd, name: &OsStr) -> Result<Vec<Vec<u8>>, Errno> {
    let path = through(dir, name);
    let mut names = vec![0; 4096];
    let length = loop {
        match fs::llistxattr(&path, names.as_mut_slice()) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < 1 << 17 => names.resize(names.len() * 4, 0),
            Err(Errno::OPNOTSUPP) => break 0,
            Err(error) => return Err(error),
        }
    };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn through(dir: &OwnedFd, name: &OsStr) -> PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

fn of_the_user(name: Vec<u8>) -> Option<OsString> {
    if let Some(rest) = name.strip_prefix(ESCAPED) {
        return Some(OsString::from_vec([RESERVED, rest].concat()));
    }
    (!name.starts_with(RESERVED)).then(|| OsString::from_vec(name))
}
