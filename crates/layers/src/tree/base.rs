//! Base of a layer, which is only read.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::store::{Inode, Kind};

/// Base of a layer. Paths are relative to its root, whose own path is empty.
pub trait Base: Send + Sync + Debug {
    /// Returns the entry at a path without following links.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Returns the entries of a directory, without `.` and `..`, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<Listed>>;

    /// Returns the target of a link.
    fn target(&self, path: &Path) -> io::Result<OsString>;

    /// Opens a regular file.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Content>>;

    /// Returns the extended attributes of a file, with their values.
    fn xattrs(&self, path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>>;
}

/// Attributes of a file of the base.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// Inode number shown in the layer.
    pub ino: u64,
    /// Inode.
    pub inode: Inode,
}

/// Entry of a directory of the base.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Name.
    pub name: OsString,
    /// Inode number shown in the layer.
    pub ino: u64,
    /// Type.
    pub kind: Kind,
}

/// Content of a file of the base.
pub trait Content: Send + Sync + Debug {
    /// Reads at an offset; a short read means the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the underlying file, if there is one.
    fn file(&self) -> Option<&File>;

    /// Returns the length at the time of opening.
    fn size(&self) -> u64;
}
