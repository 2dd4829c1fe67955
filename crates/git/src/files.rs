//! Interface to the files of a tree that contains repositories.
//!
//! Paths are relative to the root of the tree; the empty path is the root. Implementations must not follow
//! symlinks, because the tree may have been written by a hostile program.

use std::ffi::OsString;
use std::path::Path;

use sandbox_linux::tree::Kind;

/// Reads from one state of a tree: the host's, or a session's.
pub trait Files {
    /// Error of a failed read.
    type Error;

    /// Returns the type of a path, or `None` if it does not exist.
    fn kind(&self, path: &Path) -> Result<Option<Kind>, Self::Error>;

    /// Reads a regular file. Returns `None` if the path is not a regular file, or larger than `limit`.
    fn read(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// A tree whose directories can be listed.
pub trait ListFiles: Files {
    /// Returns the names in a directory; an empty list if it does not exist.
    fn list(&self, path: &Path) -> Result<Vec<OsString>, Self::Error>;
}
