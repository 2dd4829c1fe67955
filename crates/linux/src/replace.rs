//! Atomic writes: a complete draft is renamed over the file, so a reader or a crash sees either the old or the new
//! content.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Guarantee that a new file is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// None; the kernel writes it at any time.
    Cached,
    /// The content is on disk before the rename, so a power loss leaves no empty file.
    Content,
    /// Content and name are on disk before the call returns.
    Name,
}

/// Name of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftName {
    /// One per file. For callers that hold a lock. The next write replaces the draft of a killed process.
    Shared,
    /// One per file and process, for callers without a lock.
    PerProcess,
}

/// Options for replacing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replace {
    /// Mode of the new file.
    pub mode: Mode,
    /// Guarantee that it is on disk.
    pub durability: Durability,
    /// Name of the draft.
    pub draft: DraftName,
}

/// Mode of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Mode for open(2), minus the umask.
    Masked(u32),
    /// Mode regardless of the umask.
    Exact(u32),
}

impl Replace {
    /// Returns the options for private files: mode 0600 and a shared draft.
    pub const fn private(durability: Durability) -> Self {
        Self { mode: Mode::Masked(0o600), durability, draft: DraftName::Shared }
    }

    /// Replaces the file at `path`, or creates it.
    pub fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let draft = Draft::create(path, self.draft_path(path), self.mode)?;
        let written = draft.file().write_all(content);
        draft.finish(written, self.durability)
    }

    fn draft_path(&self, path: &Path) -> PathBuf {
        match self.draft {
            DraftName::Shared => beside(path, ".new"),
            DraftName::PerProcess => {
                let name = path.file_name().unwrap_or_default().display();
                path.with_file_name(format!(".{name}.new-{}", std::process::id()))
            }
        }
    }
}

/// Appends a suffix to the name of a path.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// File that is about to replace another.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Draft {
    /// Creates an empty draft at `path`, in the directory of its target. Removes the draft of a killed process.
    /// `O_EXCL` neither follows a link nor opens a file that another user created there.
    pub fn create(target: &Path, path: PathBuf, mode: Mode) -> io::Result<Self> {
        let (Mode::Masked(bits) | Mode::Exact(bits)) = mode;
        let create = || OpenOptions::new().write(true).create_new(true).mode(bits).open(&path);
        let file = create().or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => fs::remove_file(&path).and_then(|()| create()),
            _ => Err(error),
        })?;
        let draft = Self { file, path, target: target.to_owned() };
        if let Mode::Exact(bits) = mode
            && let Err(error) = draft.file.set_permissions(Permissions::from_mode(bits))
        {
            return Err(draft.discard(error));
        }
        Ok(draft)
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Renames the draft over its target if it was written; removes it otherwise.
    pub fn finish(self, written: io::Result<()>, durability: Durability) -> io::Result<()> {
        let renamed = written
            .and_then(|()| match durability {
                Durability::Cached => Ok(()),
                Durability::Content | Durability::Name => self.file.sync_all(),
            })
            .and_then(|()| fs::rename(&self.path, &self.target));
        match (renamed, durability) {
            (Err(error), _) => Err(self.discard(error)),
            (Ok(()), Durability::Name) => sync_parent(&self.target),
            (Ok(()), _) => Ok(()),
        }
    }

    /// Removes the draft after an error. If that fails too, the result names both errors.
    fn discard(self, error: io::Error) -> io::Error {
        match fs::remove_file(&self.path) {
            Err(second) if second.kind() != io::ErrorKind::NotFound => io::Error::new(
                error.kind(),
                format!("{error}; cannot remove `{}`: {second}", self.path.display()),
            ),
            _ => error,
        }
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn file_is_replaced_with_its_new_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        fs::write(&path, "a longer old text").unwrap();
        for durability in [Durability::Cached, Durability::Content, Durability::Name] {
            for draft in [DraftName::Shared, DraftName::PerProcess] {
                let replace = Replace { draft, ..Replace::private(durability) };
                replace.write(&path, b"new").unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new", "{replace:?}");
                assert_eq!(mode(&path), 0o600, "{replace:?}");
            }
        }
        let exact = Replace { mode: Mode::Exact(0o666), ..Replace::private(Durability::Cached) };
        exact.write(&path, b"").unwrap();
        assert_eq!(mode(&path), 0o666, "the umask is ignored");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn draft_of_a_killed_process_is_replaced_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("file"), dir.path().join("other"));
        fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, beside(&path, ".new")).unwrap();
        Replace::private(Durability::Cached).write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&other).unwrap(), b"other");
    }

    #[test]
    fn draft_is_removed_when_the_file_cannot_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        Replace::private(Durability::Cached).write(&path, b"new").unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the directory is left");
    }
}
