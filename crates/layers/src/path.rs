//! Paths below the root of a layer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A path below the root of a layer: never empty, never absolute, no `.`, no `..`, any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// The path, if it stays below the root and names something there.
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let plain = !path.as_os_str().as_bytes().contains(&0);
        (inside && plain && !path.as_os_str().is_empty()).then(|| Self(path.components().collect()))
    }

    /// One name below this path; nothing if the name is none.
    pub fn join(&self, name: &OsStr) -> Option<Self> {
        Self::new(Path::new(name))
            .filter(|one| one.0.components().count() == 1)
            .map(|one| Self(self.0.join(one.0)))
    }

    /// As a path, relative to the root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}
