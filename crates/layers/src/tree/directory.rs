//! Host directory as a base. Every file is opened relative to the root's descriptor without
//! following links, so no path in the base leads out of it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

use super::base::{Base, Content, Listed, Stat};
use crate::store::{BASE, Inode, Kind, LOWER, Time};

/// Maximum number of directories held open between calls.
const KEPT: usize = 32;
/// Flag beside [`BASE`] in a number that is a hash.
const HASHED: u64 = 1 << 61;

/// Host directory as a base.
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    device: u64,
    /// Recently used directories, the latest at the end.
    kept: Mutex<Vec<(PathBuf, Arc<OwnedFd>)>>,
}

impl Directory {
    /// Opens the directory at `path`, which may be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let device = rustix::fs::fstat(&root)?.st_dev;
        Ok(Self { root, device, kept: Mutex::default() })
    }

    fn dir(&self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().rposition(|(kept, _)| kept == path) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return Ok(found.1);
        }
        drop(kept);
        let dir = Arc::new(self.enter(path, OFlags::PATH | OFlags::DIRECTORY)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((path.to_owned(), Arc::clone(&dir)));
        Ok(dir)
    }

    fn enter(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
    }

    /// Returns the open parent of a path and its last name.
    fn at<'a>(&self, path: &'a Path) -> io::Result<(Arc<OwnedFd>, &'a OsStr)> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((self.dir(parent)?, name)),
            _ => Ok((self.dir(Path::new(""))?, OsStr::new("."))),
        }
    }

    /// Returns the inode number that programs see for a file of this base.
    fn number(&self, device: u64, ino: u64) -> u64 {
        if device == self.device && ino < LOWER {
            return BASE | ino;
        }
        // Hash numbers of another file system mounted inside the base, or too large ones.
        let mixed = [device, ino].iter().fold(0x243f_6a88_85a3_08d3_u64, |all, word| {
            (all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
        });
        BASE | HASHED | (mixed & (LOWER - 1))
    }
}

impl Base for Directory {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (dir, name) = self.at(path)?;
        let stat = rustix::fs::statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Stat { ino: self.number(stat.st_dev, stat.st_ino), inode: inode(&stat) })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        let dir = self.enter(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut listed = Vec::new();
        for entry in rustix::fs::Dir::new(dir)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match Kind::of(entry.file_type().as_raw_mode()) {
                Some(kind) => kind,
                None => self.stat(&path.join(&name))?.inode.kind(),
            };
            listed.push(Listed { ino: self.number(self.device, entry.ino()), name, kind });
        }
        Ok(listed)
    }

    fn target(&self, path: &Path) -> io::Result<OsString> {
        let (dir, name) = self.at(path)?;
        let target = rustix::fs::readlinkat(&*dir, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Content>> {
        let (dir, name) = self.at(path)?;
        // A FIFO put there meanwhile must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&*dir, name, flags, Mode::empty())?);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(rustix::io::Errno::STALE.into());
        }
        Ok(Arc::new(Plain { file, size: meta.len() }))
    }

    fn xattrs(&self, path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
        let (dir, name) = self.at(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*dir, name, flags, Mode::empty())?;
        if Kind::of(rustix::fs::fstat(&file)?.st_mode) == Some(Kind::Symlink) {
            return Ok(Vec::new());
        }
        // fgetxattr(2) rejects an `O_PATH` descriptor, so go through its link in /proc.
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let names = grown(|buffer| rustix::fs::listxattr(&link, buffer))?;
        let mut found = Vec::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            match grown(|buffer| rustix::fs::getxattr(&link, name, buffer)) {
                Ok(value) => found.push((OsStr::from_bytes(name).to_owned(), value)),
                Err(rustix::io::Errno::NODATA | rustix::io::Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

/// Calls with a larger buffer if needed: 64 KiB is the kernel's limit (xattr(7)).
fn grown(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    let length = match call(&mut buffer) {
        Err(rustix::io::Errno::RANGE) => {
            buffer.resize(65536, 0);
            call(&mut buffer)
        }
        // The file system does not support attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(0),
        other => other,
    }?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Open file of the host.
#[derive(Debug)]
struct Plain {
    file: File,
    /// Length at the time of opening.
    size: u64,
}

impl Content for Plain {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(&self.file, buffer, offset)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match FileExt::read_at(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn inode(stat: &rustix::fs::Stat) -> Inode {
    let time = |sec: i64, nsec: u64| Time { sec, nsec: u32::try_from(nsec).unwrap_or(0) };
    Inode {
        mode: stat.st_mode,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        rdev: stat.st_rdev,
    }
}
