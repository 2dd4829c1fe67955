//! Paths below the root of a layer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Path below the root of a layer: never empty or absolute, no `.` or `..`, any bytes but NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// Creates a path, if it stays below the root and is not the root.
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let plain = !path.as_os_str().as_bytes().contains(&0);
        (inside && plain && !path.as_os_str().is_empty()).then(|| Self(path.components().collect()))
    }

    /// Appends one name, or returns `None` if it is not a single path component.
    pub fn join(&self, name: &OsStr) -> Option<Self> {
        Self::new(Path::new(name))
            .filter(|one| one.0.components().count() == 1)
            .map(|one| Self(self.0.join(one.0)))
    }

    /// Returns the path, relative to the root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}
