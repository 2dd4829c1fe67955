//! File access below a directory that an attacker may be able to write to.
//!
//! Every step is relative to an open directory and refuses symlinks, so a link planted in the tree can never make this
//! process read, move or write anything outside of it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Directory.
    Dir,
    /// Regular file.
    File,
    /// Symlink.
    Link,
    /// Device, FIFO or socket.
    Special,
}

/// Time on the file system's clock: seconds and nanoseconds since the epoch.
pub type Instant = (i64, u32);

/// Fields of `lstat` that show whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Kind.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Last change of content, name or mode. It cannot be set without privilege.
    pub ctime: Instant,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Dir,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "the widths differ by architecture; nanoseconds and sizes fit"
)]
impl From<fs::Stat> for Stat {
    fn from(stat: fs::Stat) -> Self {
        Self {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            size: stat.st_size as u64,
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }
}

/// Treatment of mount points in a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// Enters other mounts.
    Cross,
    /// Fails with `EXDEV` at another mount.
    Stay,
}

/// Open directory.
#[derive(Debug)]
pub struct Dir(OwnedFd);

impl Dir {
    /// Opens an absolute path without symlinks.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_absolute() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(Self(lookup(CWD, path, DIR_FLAGS, resolve)?))
    }

    /// Opens a directory below this one; an empty path opens this one again.
    pub fn dir(&self, below: &Path, mounts: Mounts) -> io::Result<Self> {
        let mut resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if mounts == Mounts::Stay {
            resolve |= ResolveFlags::NO_XDEV;
        }
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        Ok(Self(lookup(&self.0, below, DIR_FLAGS, resolve)?))
    }

    /// Returns the attributes of an entry; symlinks are not followed.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(fs::statat(&self.0, plain(name)?, AtFlags::SYMLINK_NOFOLLOW)?.into())
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        self.read_with_stat(name, limit).map(|(bytes, _)| bytes)
    }

    /// Reads a regular file of at most `limit` bytes, and returns its attributes.
    pub fn read_with_stat(&self, name: &OsStr, limit: u64) -> io::Result<(Vec<u8>, Stat)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = fs::openat(&self.0, plain(name)?, flags, Mode::empty())?;
        let stat = Stat::from(fs::fstat(&fd)?);
        if stat.kind != Kind::File {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size.min(limit)).unwrap_or(0) + 1);
        std::fs::File::from(fd).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok((bytes, stat))
    }

    /// Returns the target of a symlink.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = fs::readlinkat(&self.0, plain(name)?, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Calls `each` for every entry except `.` and `..`. Continues where the last read of the directory ended.
    pub fn each(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        mut each: impl FnMut(&OsStr, Kind),
    ) -> io::Result<()> {
        let mut entries = fs::RawDir::new(&self.0, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the kind. An entry that is gone by now is skipped.
                FileType::Unknown => match self.stat(name) {
                    Ok(stat) => stat.kind,
                    Err(_) => continue,
                },
                known => known.into(),
            };
            each(name, kind);
        }
        Ok(())
    }

    /// Returns all entries.
    pub fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let mut found = Vec::new();
        self.each(&mut buffer(), |name, kind| found.push((name.to_owned(), kind)))?;
        Ok(found)
    }

    /// Renames an entry into another directory of the same file system; never replaces anything.
    pub fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        let (name, new) = (plain(name)?, plain(new)?);
        match fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            // Some file systems do not support the flag. Checking first is safe, because targets are in private
            // directories.
            Err(Errno::INVAL | Errno::NOSYS) => match to.stat(new) {
                Ok(_) => Err(Errno::EXIST.into()),
                Err(_) => Ok(fs::renameat(&self.0, name, &to.0, new)?),
            },
            done => Ok(done?),
        }
    }

    /// Opens a directory, and creates it if it does not exist.
    pub fn make_dir(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        match fs::mkdirat(&self.0, plain(name)?, Mode::from_raw_mode(mode)) {
            Err(Errno::EXIST) | Ok(()) => self.dir(Path::new(name), Mounts::Cross),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a new file; fails if it already exists.
    pub fn write_new(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = fs::openat(&self.0, plain(name)?, flags, Mode::from_raw_mode(mode & 0o777))?;
        std::fs::File::from(fd).write_all(bytes)
    }

    /// Creates a symlink.
    pub fn link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.0, plain(name)?)?)
    }

    /// Removes a file, a symlink or an empty directory.
    pub fn remove(&self, name: &OsStr, kind: Kind) -> io::Result<()> {
        let flags = if kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(fs::unlinkat(&self.0, plain(name)?, flags)?)
    }

    /// Returns true if the directory is on a file system whose clock may differ from this kernel's.
    pub fn has_foreign_clock(&self) -> bool {
        // <linux/magic.h>: ext, xfs, btrfs, tmpfs, overlay, f2fs, bcachefs, zfs, ramfs.
        const LOCAL: [u32; 9] = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0xf2f5_2010,
            0xca45_1a4e,
            0x2fc1_2fc1,
            0x8584_58f6,
        ];
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a magic number is 32 bits wide in a field whose type differs by architecture"
        )]
        fs::fstatfs(&self.0).map_or(true, |stat| !LOCAL.contains(&(stat.f_type as u32)))
    }
}

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Returns a buffer for [`Dir::each`] that holds a few hundred names.
pub fn buffer() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); 32 * 1024]
}

/// Opens the parent directory of an absolute path, and returns it with the last name.
pub fn parent(path: &Path) -> io::Result<(Dir, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => Ok((Dir::open(dir)?, name)),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

/// Checks that a name is a single component, which cannot lead elsewhere.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

fn lookup<Fd: rustix::fd::AsFd>(
    from: Fd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    match fs::openat2(&from, path, flags, Mode::empty(), resolve) {
        // Kernels before 5.6 and some seccomp filters lack openat2(2), so open each component separately.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(&from, path, resolve),
        found => Ok(found?),
    }
}

fn step_by_step<Fd: rustix::fd::AsFd>(
    from: Fd,
    path: &Path,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    let mut here = fs::openat(from, start, DIR_FLAGS, Mode::empty())?;
    let device = fs::fstat(&here)?.st_dev;
    for component in path.components() {
        match component {
            Component::Normal(name) => here = fs::openat(&here, name, DIR_FLAGS, Mode::empty())?,
            Component::ParentDir => return Err(Errno::XDEV.into()),
            _ => {}
        }
        if resolve.contains(ResolveFlags::NO_XDEV) && fs::fstat(&here)?.st_dev != device {
            return Err(Errno::XDEV.into());
        }
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn open_refuses_when_any_component_is_a_link() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert!(Dir::open(&base.join("real/deep")).is_ok());
        for bad in ["link", "link/deep"] {
            assert!(Dir::open(&base.join(bad)).is_err(), "{bad}");
            let dir = Dir::open(&base).unwrap();
            assert!(dir.dir(Path::new(bad), Mounts::Cross).is_err(), "{bad} beneath");
            let resolve = ResolveFlags::BENEATH;
            assert!(step_by_step(&dir.0, Path::new(bad), resolve).is_err(), "{bad} by steps");
        }
    }

    #[test]
    fn names_are_refused_when_they_are_paths() {
        let world = tempfile::tempdir().unwrap();
        let dir = Dir::open(&world.path().canonicalize().unwrap()).unwrap();
        for bad in ["", ".", "..", "a/b", "/etc", "a/", "../x"] {
            assert!(dir.write_new(OsStr::new(bad), b"", 0o600).is_err(), "{bad:?}");
        }
        dir.write_new(OsStr::new("a"), b"hello", 0o600).unwrap();
        assert_eq!(dir.read(OsStr::new("a"), 5).unwrap(), b"hello");
        assert!(dir.read(OsStr::new("a"), 4).is_err());
    }

    #[test]
    fn rename_fails_when_the_target_is_there() {
        let world = tempfile::tempdir().unwrap();
        let dir = Dir::open(&world.path().canonicalize().unwrap()).unwrap();
        let (one, two) = (OsStr::new("one"), OsStr::new("two"));
        dir.write_new(one, b"1", 0o600).unwrap();
        dir.write_new(two, b"2", 0o600).unwrap();
        assert!(dir.rename(one, &dir, two).is_err());
        assert_eq!(dir.read(two, 10).unwrap(), b"2");
    }
}
