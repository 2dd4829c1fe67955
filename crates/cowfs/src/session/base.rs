//! What the base's files were when they were first changed: the ancestor of a merge.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::disk;
use super::error::{SessionError, cannot};
use super::text;
use crate::change::RelPath;

/// Text up to this size is kept, so that it can be merged.
const KEPT: u64 = 1 << 20;
/// A larger file is known by its inode and its times alone.
const HASHED: u64 = 64 << 20;

/// The state of one path of the base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum BaseState {
    /// Nothing was there.
    Missing,
    /// A regular file.
    File {
        /// Its inode.
        ino: u64,
        /// Bytes.
        size: u64,
        /// Permission bits.
        mode: u32,
        /// The last change of its content.
        mtime: (i64, u32),
        /// The last change of anything about it.
        ctime: (i64, u32),
        /// The hash of its content, in hexadecimal; missing for very large files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Whether its bytes are kept.
        #[serde(default)]
        kept: bool,
    },
    /// A directory.
    Dir {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        #[serde(with = "text")]
        target: PathBuf,
    },
    /// Something else.
    Special,
    /// It changed while a command ran in the session: what the command saw is not known.
    Unknown,
}

/// The recorded part of one root's base.
#[derive(Debug, Clone, Default)]
pub struct BaseRecord {
    dir: PathBuf,
    states: BTreeMap<PathBuf, BaseState>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    states: BTreeMap<String, BaseState>,
}

impl BaseRecord {
    /// What a path was when it was first changed; nothing if that was never recorded.
    pub fn state(&self, path: &RelPath) -> Option<&BaseState> {
        self.states.get(path.as_path())
    }

    /// The bytes of a file as it was, if they were kept and are still what the hash says.
    pub fn bytes(&self, state: &BaseState) -> Result<Option<Vec<u8>>, SessionError> {
        let BaseState::File { sha256: Some(hash), kept: true, .. } = state else { return Ok(None) };
        let path = self.dir.join("bytes").join(hash);
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| hex(&Sha256::digest(bytes)) == *hash)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("read", &path)(error)),
        }
    }

    /// Every recorded path.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &BaseState)> {
        self.states.iter().map(|(path, state)| (path.as_path(), state))
    }

    /// Reads the record of root number `root`; empty if there is none yet.
    pub(super) fn read(dir: &Path, root: usize) -> Result<Self, SessionError> {
        let file = dir.join(format!("{root}.json"));
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { dir: dir.to_path_buf(), states: BTreeMap::new() });
            }
            Err(error) => return Err(cannot("read", &file)(error)),
        };
        let damaged = |source| SessionError::Record { path: file.clone(), source };
        let written: Written = serde_json::from_slice(&text).map_err(damaged)?;
        let states = written
            .states
            .into_iter()
            .filter_map(|(path, state)| Some((text::decode(&path)?, state)));
        Ok(Self { dir: dir.to_path_buf(), states: states.collect() })
    }

    /// Writes the record of root number `root`.
    pub(super) fn write(&self, root: usize) -> Result<(), SessionError> {
        let states =
            self.states.iter().map(|(path, state)| (text::encode(path), state.clone())).collect();
        let file = self.dir.join(format!("{root}.json"));
        let bytes = serde_json::to_vec(&Written { states })
            .map_err(|source| SessionError::Record { path: file.clone(), source })?;
        disk::private_dir(&self.dir)?;
        disk::replace(&file, &bytes)
    }

    /// Records what a path of the base is now, unless it is recorded already. `since` is when the
    /// run began: what changed later is not what the command saw. Returns whether it changed.
    pub(super) fn take(
        &mut self,
        base: &Path,
        path: &RelPath,
        since: (i64, u32),
    ) -> Result<bool, SessionError> {
        let full = base.join(path.as_path());
        let changed = changed_since(&full, since);
        if self.states.contains_key(path.as_path()) {
            return Ok(changed);
        }
        let state = if changed { BaseState::Unknown } else { self.keep(&full)? };
        self.states.insert(path.as_path().to_path_buf(), state);
        Ok(changed)
    }

    fn keep(&self, full: &Path) -> Result<BaseState, SessionError> {
        let (mut state, bytes) = look(full).map_err(cannot("read", full))?;
        if let (BaseState::File { sha256: Some(hash), kept, .. }, Some(bytes)) = (&mut state, bytes)
        {
            let dir = self.dir.join("bytes");
            disk::private_dir(&dir)?;
            let file = dir.join(&*hash);
            if !file.try_exists().unwrap_or(false) {
                disk::replace(&file, &bytes)?;
            }
            *kept = true;
        }
        Ok(state)
    }
}

impl BaseState {
    /// What a path is now.
    pub fn of(path: &Path) -> io::Result<Self> {
        look(path).map(|(state, _)| state)
    }

    /// Whether two states stand for the same content: what a merge would see. The owner's
    /// permission to execute counts; times and inodes do not, unless nothing else is known.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { size, mode, sha256, ino, mtime, ctime, .. },
                Self::File {
                    size: size2,
                    mode: mode2,
                    sha256: hash2,
                    ino: ino2,
                    mtime: mtime2,
                    ctime: ctime2,
                    ..
                },
            ) => {
                let content = match (sha256, hash2) {
                    (Some(one), Some(other)) => one == other,
                    _ => (ino, mtime, ctime) == (ino2, mtime2, ctime2),
                };
                size == size2 && mode & 0o100 == mode2 & 0o100 && content
            }
            (Self::Dir { .. }, Self::Dir { .. }) => true,
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            (one, other) => one == other,
        }
    }
}

/// Whether something at this path changed at or after an instant. A path that is missing did not,
/// as far as it can tell.
fn changed_since(path: &Path, since: (i64, u32)) -> bool {
    let stamp = |meta: fs::Metadata| (meta.ctime(), u32::try_from(meta.ctime_nsec()).unwrap_or(0));
    // The times of a directory change with its entries, which are looked at by themselves.
    fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir() && stamp(meta) >= since)
}

/// The state of a path, and its bytes if they are worth keeping. Links are not followed.
fn look(path: &Path) -> io::Result<(BaseState, Option<Vec<u8>>)> {
    let meta = match fs::symlink_metadata(path) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok((BaseState::Missing, None));
        }
        meta => meta?,
    };
    let kind = meta.file_type();
    if kind.is_dir() {
        return Ok((BaseState::Dir { mode: meta.mode() & 0o7777 }, None));
    }
    if kind.is_symlink() {
        return Ok((BaseState::Link { target: fs::read_link(path)? }, None));
    }
    if !kind.is_file() {
        return Ok((BaseState::Special, None));
    }
    let (sha256, bytes) = content(path, meta.size())?;
    let state = BaseState::File {
        ino: meta.ino(),
        size: meta.size(),
        mode: meta.mode() & 0o7777,
        mtime: (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0)),
        ctime: (meta.ctime(), u32::try_from(meta.ctime_nsec()).unwrap_or(0)),
        sha256,
        kept: false,
    };
    Ok((state, bytes))
}

fn content(path: &Path, size: u64) -> io::Result<(Option<String>, Option<Vec<u8>>)> {
    if size > HASHED {
        return Ok((None, None));
    }
    let flags =
        rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
    if size <= KEPT {
        let mut bytes = Vec::new();
        file.take(KEPT + 1).read_to_end(&mut bytes)?;
        let hash = hex(&Sha256::digest(&bytes));
        let is_text = !bytes.contains(&0);
        return Ok((Some(hash), is_text.then_some(bytes)));
    }
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((Some(hex(&hasher.finalize())), None)),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
