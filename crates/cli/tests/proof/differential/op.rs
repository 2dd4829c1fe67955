//! Operations, and a tree that they are applied to.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    Uid, XattrFlags,
};
use rustix::io::Errno;

/// Result of an operation: the bytes that it read, if any.
pub(crate) type Answer = Result<Vec<u8>, Errno>;

/// One operation. Paths are relative to the tree.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Write {
        path: PathBuf,
        flags: OFlags,
        at: u64,
        bytes: Bytes,
    },
    Read {
        path: PathBuf,
    },
    Truncate {
        path: PathBuf,
        length: u64,
    },
    Punch {
        path: PathBuf,
        at: u64,
        length: u64,
    },
    Allocate {
        path: PathBuf,
        at: u64,
        length: u64,
    },
    Copy {
        from: PathBuf,
        to: PathBuf,
        at: u64,
        length: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        flags: RenameFlags,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    Rmdir {
        path: PathBuf,
    },
    Mkdir {
        path: PathBuf,
        mode: u32,
    },
    Symlink {
        path: PathBuf,
        target: PathBuf,
    },
    Fifo {
        path: PathBuf,
    },
    Chmod {
        path: PathBuf,
        mode: u32,
    },
    Chown {
        path: PathBuf,
        uid: u32,
        gid: u32,
    },
    Times {
        path: PathBuf,
        seconds: i64,
        nanoseconds: i64,
    },
    SetXattr {
        path: PathBuf,
        name: &'static str,
        value: Bytes,
        flags: XattrFlags,
    },
    RemoveXattr {
        path: PathBuf,
        name: &'static str,
    },
    List {
        path: PathBuf,
    },
    /// Lists a directory, and removes entries during the listing.
    Empty {
        path: PathBuf,
    },
    Open {
        path: PathBuf,
        flags: OFlags,
    },
    OpenRead {
        handle: usize,
    },
    OpenWrite {
        handle: usize,
        at: u64,
        bytes: Bytes,
    },
    OpenTruncate {
        handle: usize,
        length: u64,
    },
    OpenStat {
        handle: usize,
    },
    OpenSync {
        handle: usize,
    },
    Close {
        handle: usize,
    },
}

/// Bytes that a report does not print in full.
#[derive(Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Tree with its open descriptors.
pub(crate) struct Side {
    root: PathBuf,
    open: Vec<OwnedFd>,
}

impl Side {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, open: Vec::new() }
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Open { .. }
            | Op::OpenRead { .. }
            | Op::OpenWrite { .. }
            | Op::OpenTruncate { .. }
            | Op::OpenStat { .. }
            | Op::OpenSync { .. }
            | Op::Close { .. } => self.open(op),
            Op::Write { .. }
            | Op::Read { .. }
            | Op::Truncate { .. }
            | Op::Punch { .. }
            | Op::Allocate { .. }
            | Op::Copy { .. } => self.data(op),
            _ => self.name(op),
        }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn file(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        // Never blocks: opening a FIFO would.
        let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(self.at(path), flags, Mode::from_raw_mode(0o644))
    }

    fn data(&self, op: &Op) -> Answer {
        match op {
            Op::Write { path, flags, at, bytes } => {
                let file = self.file(path, *flags)?;
                if flags.contains(OFlags::APPEND) {
                    rustix::io::write(&file, &bytes.0)?;
                } else {
                    rustix::io::pwrite(&file, &bytes.0, *at)?;
                }
                Ok(Vec::new())
            }
            Op::Read { path } => whole(&self.file(path, OFlags::RDONLY)?),
            Op::Truncate { path, length } => {
                done(rustix::fs::ftruncate(self.file(path, OFlags::WRONLY)?, *length))
            }
            Op::Punch { path, at, length } => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                done(rustix::fs::fallocate(self.file(path, OFlags::RDWR)?, how, *at, *length))
            }
            Op::Allocate { path, at, length } => {
                let file = self.file(path, OFlags::RDWR)?;
                done(rustix::fs::fallocate(file, FallocateFlags::empty(), *at, *length))
            }
            Op::Copy { from, to, at, length } => {
                let from = self.file(from, OFlags::RDONLY)?;
                let to = self.file(to, OFlags::WRONLY)?;
                let (mut start, mut end) = (0, *at);
                let copied = rustix::fs::copy_file_range(
                    from,
                    Some(&mut start),
                    to,
                    Some(&mut end),
                    *length,
                )?;
                Ok(copied.to_string().into_bytes())
            }
            _ => unreachable!("not about data: {op:?}"),
        }
    }

    fn name(&self, op: &Op) -> Answer {
        match op {
            Op::Rename { from, to, flags } => {
                done(rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), *flags))
            }
            Op::Link { from, to } => done(rustix::fs::link(self.at(from), self.at(to))),
            Op::Unlink { path } => done(rustix::fs::unlink(self.at(path))),
            Op::Rmdir { path } => done(rustix::fs::rmdir(self.at(path))),
            Op::Mkdir { path, mode } => {
                done(rustix::fs::mkdir(self.at(path), Mode::from_raw_mode(*mode)))
            }
            Op::Symlink { path, target } => done(rustix::fs::symlink(target, self.at(path))),
            Op::Fifo { path } => {
                let mode = Mode::from_raw_mode(0o600);
                done(rustix::fs::mknodat(CWD, self.at(path), FileType::Fifo, mode, 0))
            }
            Op::List { path } => names(&self.at(path)),
            Op::Empty { path } => empty(&self.at(path)),
            _ => self.attribute(op),
        }
    }

    fn attribute(&self, op: &Op) -> Answer {
        match op {
            Op::Chmod { path, mode } => {
                let path = self.at(path);
                // The kernel follows links here, and their targets differ between trees.
                if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
                    return Ok(Vec::new());
                }
                done(rustix::fs::chmod(path, Mode::from_raw_mode(*mode)))
            }
            Op::Chown { path, uid, gid } => {
                let (uid, gid) = (Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
                done(rustix::fs::chownat(CWD, self.at(path), uid, gid, AtFlags::SYMLINK_NOFOLLOW))
            }
            Op::Times { path, seconds, nanoseconds } => {
                let time = Timespec { tv_sec: *seconds, tv_nsec: *nanoseconds };
                let times = Timestamps { last_access: time, last_modification: time };
                done(rustix::fs::utimensat(CWD, self.at(path), &times, AtFlags::SYMLINK_NOFOLLOW))
            }
            Op::SetXattr { path, name, value, flags } => {
                done(rustix::fs::lsetxattr(self.at(path), *name, &value.0, *flags))
            }
            Op::RemoveXattr { path, name } => done(rustix::fs::lremovexattr(self.at(path), *name)),
            _ => unreachable!("not about attributes: {op:?}"),
        }
    }

    fn handle(&self, number: usize) -> Result<&OwnedFd, Errno> {
        if self.open.is_empty() {
            Err(Errno::BADF)
        } else {
            Ok(&self.open[number % self.open.len()])
        }
    }

    fn open(&mut self, op: &Op) -> Answer {
        match op {
            Op::Open { path, flags } => {
                if self.open.len() < 4 {
                    self.open.push(self.file(path, *flags)?);
                }
                Ok(Vec::new())
            }
            Op::OpenRead { handle } => whole(self.handle(*handle)?),
            Op::OpenWrite { handle, at, bytes } => {
                rustix::io::pwrite(self.handle(*handle)?, &bytes.0, *at).map(|_| Vec::new())
            }
            Op::OpenTruncate { handle, length } => {
                done(rustix::fs::ftruncate(self.handle(*handle)?, *length))
            }
            Op::OpenStat { handle } => {
                let stat = rustix::fs::fstat(self.handle(*handle)?)?;
                let size = if stat.st_mode & 0o170_000 == 0o040_000 { 0 } else { stat.st_size };
                let links = if stat.st_mode & 0o170_000 == 0o040_000 { 0 } else { stat.st_nlink };
                Ok(format!("{size} bytes, mode {:o}, {links} links", stat.st_mode).into_bytes())
            }
            Op::OpenSync { handle } => done(rustix::fs::fsync(self.handle(*handle)?)),
            Op::Close { handle } => {
                if !self.open.is_empty() {
                    drop(self.open.remove(handle % self.open.len()));
                }
                Ok(Vec::new())
            }
            _ => unreachable!("not about what is open: {op:?}"),
        }
    }
}

fn done(result: Result<(), Errno>) -> Answer {
    result.map(|()| Vec::new())
}

fn whole(file: &OwnedFd) -> Answer {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 100_000];
    loop {
        let count = rustix::io::pread(file, &mut buffer, bytes.len() as u64)?;
        if count == 0 {
            return Ok(bytes);
        }
        bytes.extend(&buffer[..count]);
    }
}

fn names(dir: &Path) -> Answer {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| errno(&error))? {
        let entry = entry.map_err(|error| errno(&error))?;
        let kind = entry.file_type().map_err(|error| errno(&error))?;
        names.push([entry.file_name().as_bytes(), format!(" {kind:?}").as_bytes()].concat());
    }
    names.sort();
    Ok(names.join(&b'\n'))
}

/// Removes a tree as `rm -r` does, except for directories.
fn empty(dir: &Path) -> Answer {
    let mut first = 0;
    for entry in fs::read_dir(dir).map_err(|error| errno(&error))? {
        let entry = entry.map_err(|error| errno(&error))?;
        if !entry.file_type().map_err(|error| errno(&error))?.is_dir() {
            fs::remove_file(entry.path()).map_err(|error| errno(&error))?;
            first += 1;
        }
    }
    Ok([names(dir)?, format!("; {first} removed").into_bytes()].concat())
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the name as a path, whatever its bytes.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
