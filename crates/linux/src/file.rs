//! Questions about files.

use std::path::Path;

use rustix::fs::Access;

/// Whether the caller can read a file, or list or enter a directory.
pub fn readable(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
        || rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Whether the caller can write a file, or make and remove names in a directory.
pub fn writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}
