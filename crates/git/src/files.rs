//! Files of a tree in which repositories lie, read through a callback.
//!
//! Paths are relative to the root of the tree, and the empty path is the root. Implementations follow
//! no symbolic links: the tree may have been written by a hostile program.

use std::ffi::OsString;
use std::path::Path;

use sandbox_linux::tree::Kind;

/// Reads from one state of a tree: the host's, or a session's.
pub trait Files {
    /// Reason for which the tree cannot be read.
    type Error;

    /// Returns the type of a path, or nothing if it does not exist.
    fn kind(&self, path: &Path) -> Result<Option<Kind>, Self::Error>;

    /// Reads a regular file. Returns nothing if the path is something else, or larger than `limit`.
    fn read(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// A tree whose directories can be listed.
pub trait ListFiles: Files {
    /// Returns the names in a directory; none if it does not exist.
    fn list(&self, path: &Path) -> Result<Vec<OsString>, Self::Error>;
}
