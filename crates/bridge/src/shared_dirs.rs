//! Translation of the container's paths to the host's.
//!
//! Each shared directory is opened once, and every lookup is confined to that descriptor, so a planted symlink cannot
//! lead outside of it.

pub mod argument;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use sandbox_linux::beneath::{Opened, Root};
use thiserror::Error;

use crate::list::HostMount;
use argument::parts;

/// Directories shared between container and host.
#[derive(Debug, Default)]
pub(crate) struct SharedDirs {
    shared: Vec<(PathBuf, Root)>,
}

/// Working directory on the host, held open.
#[derive(Debug)]
pub(crate) struct WorkDir {
    /// Index of the shared directory that contains it.
    shared: usize,
    /// Path below that shared directory.
    below: PathBuf,
    /// Open directory.
    pub(crate) dir: Opened,
}

impl WorkDir {
    /// Returns its path below the shared directory.
    pub(crate) fn below(&self) -> &Path {
        &self.below
    }
}

/// Reason why a path of the container is refused.
#[derive(Debug, Error)]
pub(crate) enum SharedDirError {
    /// It is not below any shared directory.
    #[error("`{}` is not in a directory that the container shares with the host", .0.display())]
    Outside(PathBuf),
    /// It leads outside the shared directory.
    #[error("`{}` leads outside the directory that the container shares with the host", .0.display())]
    Escapes(PathBuf),
    /// It cannot be inspected.
    #[error("cannot inspect `{}` on the host: {}", .0.display(), .1)]
    Look(PathBuf, io::Error),
}

impl SharedDirs {
    /// Opens the shared directories.
    pub(crate) fn open(mounts: &[HostMount]) -> io::Result<Self> {
        let mut shared = Vec::new();
        for mount in mounts {
            match Root::open(&mount.host) {
                Ok(root) => shared.push((mount.container.clone(), root)),
                // A single shared file contains no paths.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { shared })
    }

    /// Returns true if nothing is shared.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns true if a host file is in a shared directory, where the container may be able to write.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.shared.iter().any(|(_, root)| path.starts_with(root.path()))
    }

    /// Opens the host's directory for a directory of the container.
    pub(crate) fn work_dir(&self, asked: &Path) -> Result<WorkDir, SharedDirError> {
        let (shared, below) = self.split(asked)?;
        let dir = self.look(shared, &below, asked)?;
        match dir {
            Some(dir) => Ok(WorkDir { shared, below: dir.below.clone(), dir }),
            None => Err(SharedDirError::Look(asked.to_owned(), io::ErrorKind::NotFound.into())),
        }
    }

    /// Opens a host directory from the list if it is in a shared one.
    pub(crate) fn named_dir(&self, dir: &Path) -> io::Result<Option<WorkDir>> {
        let real = dir.canonicalize()?;
        let below = |(at, (_, root)): (usize, &(PathBuf, Root))| {
            Some((root.path().components().count(), at, real.strip_prefix(root.path()).ok()?))
        };
        let found = self.shared.iter().enumerate().filter_map(below).max_by_key(|found| found.0);
        let Some((_, shared, below)) = found else { return Ok(None) };
        let dir = self.shared[shared].1.find(below)?;
        Ok(dir.map(|dir| WorkDir { shared, below: dir.below.clone(), dir }))
    }

    /// Looks up a path in the shared directory that contains a working directory.
    pub(crate) fn look_below(
        &self,
        dir: &WorkDir,
        below: &Path,
    ) -> Result<Option<Opened>, SharedDirError> {
        self.look(dir.shared, below, below)
    }

    /// Returns the root of the shared directory that contains a working directory.
    pub(crate) fn root_of(&self, dir: &WorkDir) -> &Path {
        self.shared[dir.shared].1.path()
    }

    /// Replaces the container's paths in a word of a request by the host's.
    pub(crate) fn argument(
        &self,
        word: &OsStr,
        cwd: Option<&WorkDir>,
    ) -> Result<OsString, SharedDirError> {
        let bytes = word.as_bytes();
        let mut out = Vec::new();
        let mut done = 0;
        for part in parts(bytes) {
            let path = Path::new(OsStr::from_bytes(&bytes[part.range.clone()]));
            if part.absolute {
                let host = self.on_host(path)?;
                out.extend_from_slice(&bytes[done..part.range.start]);
                out.extend_from_slice(host.as_os_str().as_bytes());
                done = part.range.end;
            } else {
                self.check_relative(path, cwd)?;
            }
        }
        out.extend_from_slice(&bytes[done..]);
        Ok(OsString::from_vec(out))
    }

    fn on_host(&self, path: &Path) -> Result<PathBuf, SharedDirError> {
        if path == Path::new("/dev/null") {
            return Ok(path.to_owned());
        }
        let (shared, below) = self.split(path)?;
        let root = &self.shared[shared].1;
        if let Some(found) = self.look(shared, &below, path)? {
            return Ok(root.path().join(found.below));
        }
        // The command creates a missing file in an existing directory.
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(SharedDirError::Escapes(path.to_owned()));
        };
        match self.look(shared, parent, path)? {
            Some(found) => Ok(root.path().join(found.below).join(name)),
            None if is_plain(&below) => Ok(root.path().join(below)),
            None => Err(SharedDirError::Escapes(path.to_owned())),
        }
    }

    /// Checks that a relative path, which is passed on unchanged, does not lead outside.
    fn check_relative(&self, path: &Path, cwd: Option<&WorkDir>) -> Result<(), SharedDirError> {
        let escapes = || SharedDirError::Escapes(path.to_owned());
        let Some(cwd) = cwd else {
            return if is_plain(path) { Ok(()) } else { Err(escapes()) };
        };
        let below = cwd.below.join(path);
        match self.look(cwd.shared, &below, path)? {
            None if !is_plain(path) => Err(escapes()),
            _ => Ok(()),
        }
    }

    fn split(&self, path: &Path) -> Result<(usize, PathBuf), SharedDirError> {
        let below = |(at, (container, _)): (usize, &(PathBuf, Root))| {
            let below = path.strip_prefix(container).ok()?.to_owned();
            Some((container.components().count(), at, below))
        };
        let found =
            self.shared.iter().enumerate().filter_map(below).max_by_key(|(length, ..)| *length);
        found
            .map(|(_, at, below)| (at, below))
            .ok_or_else(|| SharedDirError::Outside(path.to_owned()))
    }

    fn look(
        &self,
        shared: usize,
        below: &Path,
        asked: &Path,
    ) -> Result<Option<Opened>, SharedDirError> {
        match self.shared[shared].1.find(below) {
            Ok(found) => Ok(found),
            Err(error) if Root::is_escape(&error) => Err(SharedDirError::Escapes(asked.to_owned())),
            Err(error) => Err(SharedDirError::Look(asked.to_owned(), error)),
        }
    }
}

/// Returns true if a path only descends.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
