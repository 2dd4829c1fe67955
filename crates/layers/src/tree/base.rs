//! What lies below a layer: read, never written.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::store::{Inode, Kind};

/// The lower side of a layer. Paths are relative to its root; the root's own path is empty.
pub trait Base: Send + Sync + Debug {
    /// What stands at a path, links not followed.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// The entries of a directory, without `.` and `..`, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<Listed>>;

    /// Where a link points.
    fn target(&self, path: &Path) -> io::Result<OsString>;

    /// Opens a regular file.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Content>>;

    /// The extended attributes of a file, with their values.
    fn xattrs(&self, path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>>;
}

/// What a base says about a file.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// The number that the file shows in the layer.
    pub ino: u64,
    /// The rest.
    pub inode: Inode,
}

/// An entry of a base's directory.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name.
    pub name: OsString,
    /// The number that it shows.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
}

/// The content of a base's file.
pub trait Content: Send + Sync + Debug {
    /// Reads at an offset; short only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The file itself, where there is one.
    fn file(&self) -> Option<&File>;

    /// Its length when it was opened.
    fn size(&self) -> u64;
}
