//! State of files at the start of a run, for comparison at its end.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use sandbox_linux::tree::{self, Dir, Instant, Kind, Mounts, Stat};
use serde::{Deserialize, Serialize};

use sandbox_linux::raw::{Raw, RawPath};

/// Larger files are noticed when they change, but cannot be put back.
pub(super) const MAX_COPY: u64 = 64 << 10;
/// Maximum number of hooks recorded one by one.
pub(super) const MAX_HOOKS: usize = 64;

/// An inode, for as long as it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Id {
    dev: u64,
    ino: u64,
}

impl From<Stat> for Id {
    fn from(stat: Stat) -> Self {
        Self { dev: stat.dev, ino: stat.ino }
    }
}

/// State of something that must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Baseline {
    pub(super) path: RawPath,
    pub(super) class: Class,
    pub(super) was: Was,
}

/// Meaning of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Class {
    /// Git settings. The user may change them on the host during the run, but settings that run programs
    /// may not appear.
    Settings,
    /// A directory of hooks.
    Hooks,
    /// A file that must not change at all.
    Exact,
    /// Configuration of agent-sandbox. The user may edit it during the run: the trust prompt covers what it widens.
    OurConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Was {
    File(FileState),
    Hooks { id: Id, files: Vec<(RawPath, FileState)> },
    Other { id: Id },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    id: Id,
    ctime: Instant,
    pub(super) mode: u32,
    pub(super) content: Option<Raw>,
}

impl FileState {
    fn read(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let (content, stat) = match dir.read_with_stat(name, MAX_COPY) {
            Ok((content, stat)) => (Some(Raw(content)), stat),
            Err(_) => (None, dir.stat(name)?),
        };
        Ok(Self { id: stat.into(), ctime: stat.ctime, mode: stat.mode, content })
    }

    /// Returns true when this is the recorded file, unchanged.
    pub(super) fn is_untouched(&self, stat: Stat) -> bool {
        stat.kind == Kind::File && self.id == stat.into() && self.ctime == stat.ctime
    }
}

impl Baseline {
    /// Records a path. Returns `None` if it no longer exists.
    pub(super) fn record(path: &Path, class: Class) -> Option<Self> {
        let (dir, name) = tree::parent(path).ok()?;
        let stat = dir.stat(name).ok()?;
        let was = match stat.kind {
            Kind::File => Was::File(FileState::read(&dir, name).ok()?),
            Kind::Dir if class == Class::Hooks => {
                Was::Hooks { id: stat.into(), files: read_hooks(&dir, name).ok()? }
            }
            _ => Was::Other { id: stat.into() },
        };
        Some(Self { path: RawPath::of(path), class, was })
    }
}

fn read_hooks(dir: &Dir, name: &OsStr) -> io::Result<Vec<(RawPath, FileState)>> {
    let hooks = dir.dir(Path::new(name), Mounts::Cross)?;
    let names =
        hooks.entries()?.into_iter().filter(|(name, kind)| *kind == Kind::File && is_live(name));
    let states = names.take(MAX_HOOKS).filter_map(|(name, _)| {
        let state = FileState::read(&hooks, &name).ok()?;
        Some((RawPath(name.into()), state))
    });
    Ok(states.collect())
}

/// Returns true when git would run a hook of this name.
pub(super) fn is_live(name: &OsStr) -> bool {
    !name.as_encoded_bytes().ends_with(b".sample")
}
