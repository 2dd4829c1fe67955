//! Symlink-safe access to the host's files below one directory.
//!
//! An agent may have filled the tree with traps. Every lookup and every write therefore starts at
//! an open directory and follows no symbolic link: directories are opened with `openat2` and
//! `RESOLVE_BENEATH`, `NO_SYMLINKS` and `NO_MAGICLINKS`, entries by a single name below them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::RelPath;

/// Attributes that show whether a file is unchanged without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last write, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Time of the last change to the inode, which no program can set.
    pub ctime: (i64, u32),
}

/// Entry at a path of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// File, directory, link or something else.
    pub kind: Kind,
    /// Attributes that detect a later change.
    pub stamp: Stamp,
    /// Permission bits with set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u64,
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
}

impl HostEntry {
    /// Returns true when the owner may execute it.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

impl From<fs::Stat> for HostEntry {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "the widths differ by architecture; nanoseconds and sizes fit"
    )]
    fn from(stat: fs::Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Special,
        };
        let stamp = Stamp {
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        };
        Self {
            kind,
            stamp,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink as u64,
        }
    }
}

/// Directory of the host that a layer covers.
#[derive(Debug)]
pub struct HostTree {
    root: OwnedFd,
    path: PathBuf,
}

/// Longest path passed to one system call.
const LONGEST: usize = 2048;
const DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl HostTree {
    /// Opens an absolute path that leads through no symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let root = fs::openat2(CWD, path, DIR, Mode::empty(), resolve)?;
        Ok(Self { root, path: path.to_path_buf() })
    }

    /// Returns the path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open root directory.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Opens the parent directory of a path and returns it with the path's last name.
    pub fn parent<'p>(&self, path: &'p RelPath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.as_path().file_name().ok_or(Errno::INVAL)?;
        Ok((self.dir(path.as_path().parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens a directory; the empty path is the root. A path too long for one system call is
    /// resolved in parts, because an agent can nest directories deeper than that.
    fn dir(&self, path: &Path) -> io::Result<OwnedFd> {
        let open = |from: &OwnedFd, part: &Path| {
            fs::openat2(from, part, DIR, Mode::empty(), BENEATH).map_err(io::Error::from)
        };
        let (mut here, mut part) = (None, PathBuf::from("."));
        for name in path {
            if part.as_os_str().len() + name.len() > LONGEST {
                here = Some(open(here.as_ref().unwrap_or(&self.root), &part)?);
                part = PathBuf::from(".");
            }
            part.push(name);
        }
        open(here.as_ref().unwrap_or(&self.root), &part)
    }

    /// Returns the entry at a path, or `None` if a parent is missing or not a directory.
    pub fn stat(&self, path: &RelPath) -> io::Result<Option<HostEntry>> {
        let (dir, name) = match self.parent(path) {
            Err(error) if is_absent(&error) => return Ok(None),
            found => found?,
        };
        stat_at(&dir, name)
    }

    /// Opens a regular file for reading and returns its attributes.
    pub fn open_file(&self, path: &RelPath) -> io::Result<(File, HostEntry)> {
        let (dir, name) = self.parent(path)?;
        open_at(&dir, name)
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, path: &RelPath) -> io::Result<OsString> {
        let (dir, name) = self.parent(path)?;
        link_at(&dir, name)
    }

    /// Returns the names in a directory, in byte order.
    pub fn list(&self, path: &RelPath) -> io::Result<Vec<OsString>> {
        names(self.dir(path.as_path())?)
    }

    /// Returns the names in the root directory, in byte order.
    pub(crate) fn list_root(&self) -> io::Result<Vec<OsString>> {
        names(self.dir(Path::new(""))?)
    }
}

fn names(dir: OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::new(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable_by(|one, two| one.as_bytes().cmp(two.as_bytes()));
    Ok(names)
}

/// Returns true when a tree holds more than `count` files. Stops at the first file above it.
pub(crate) fn has_more_files(host: &HostTree, count: usize) -> bool {
    let join = |dir: Option<&RelPath>, name: &OsStr| match dir {
        Some(dir) => dir.join(name),
        None => RelPath::new(name),
    };
    let (mut todo, mut found) = (vec![None], 0);
    while let Some(dir) = todo.pop() {
        let names = match &dir {
            Some(dir) => host.list(dir),
            None => host.list_root(),
        };
        for path in names.unwrap_or_default().iter().filter_map(|name| join(dir.as_ref(), name)) {
            match host.stat(&path) {
                Ok(Some(entry)) if entry.kind == Kind::Dir => todo.push(Some(path)),
                _ => found += 1,
            }
            if found > count {
                return true;
            }
        }
    }
    false
}

/// Returns the entry of a name in an open directory.
pub(crate) fn stat_at(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<HostEntry>> {
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file in an open directory without blocking on a FIFO.
pub(crate) fn open_at(dir: &OwnedFd, name: &OsStr) -> io::Result<(File, HostEntry)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(dir, name, flags, Mode::empty())?;
    let found = HostEntry::from(fs::fstat(&file)?);
    if found.kind != Kind::File {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok((File::from(file), found))
}

/// Returns the target of a link in an open directory.
pub(crate) fn link_at(dir: &OwnedFd, name: &OsStr) -> io::Result<OsString> {
    let target = fs::readlinkat(dir, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// Returns true for a lookup that failed because the name cannot exist or because the user lacks
/// permission. Callers skip such an entry and continue with the rest of the tree.
pub(crate) fn is_out_of_reach(error: &io::Error) -> bool {
    let denied = [Errno::ACCESS, Errno::PERM].map(Errno::raw_os_error);
    is_absent(error) || error.raw_os_error().is_some_and(|code| denied.contains(&code))
}

/// Returns true when a lookup failed because the name cannot exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| absent.contains(&code))
}
