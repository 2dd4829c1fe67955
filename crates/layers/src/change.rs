//! Content of a layer, in types that both engines share.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

use sandbox_protocol::Hint;
use thiserror::Error;

use crate::path::RelPath;

/// Attributes of an inode that a layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits with set-id and sticky bits, without the type.
    pub mode: u32,
    /// Owner, as the layer stores it.
    pub uid: u32,
    /// Group, as the layer stores it.
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Number of names of the file in the layer.
    pub links: u64,
}

/// State of one path of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// The base's entry is removed, with all below it.
    Gone,
    /// A directory. An opaque one hides the base's directory at this path.
    Dir {
        /// Its inode.
        meta: Meta,
        /// True when the base is hidden below.
        opaque: bool,
    },
    /// A regular file with its length.
    File {
        /// Its inode.
        meta: Meta,
        /// Length in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Its inode.
        meta: Meta,
        /// Target.
        target: OsString,
    },
    /// A FIFO, a socket or a device.
    Special {
        /// Its inode; `mode` here includes the type bits.
        meta: Meta,
    },
}

impl Node {
    /// Returns true when the base is hidden at this path.
    pub fn hides(&self) -> bool {
        !matches!(self, Self::Dir { opaque: false, .. })
    }
}

/// Entry of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerEntry {
    /// The path.
    pub path: RelPath,
    /// State of the path.
    pub node: Node,
}

/// Content of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the order of [`Layer::entries`].
    pub entries: Vec<LayerEntry>,
    /// Whiteouts of paths that the base does not have. They take effect again when it gets such a path.
    pub over_nothing: Vec<RelPath>,
}

/// Stack of changes over a base directory, read as one. The cost of reading grows with the changes, not with the base.
pub trait Layer: Send + Sync {
    /// Returns all entries, parents before children, names in byte order. A directory that was moved here from
    /// elsewhere in the base is listed completely, so the caller needs no knowledge of redirects.
    fn entries(&self) -> Result<Vec<LayerEntry>, LayerError>;

    /// Returns the entries, and the removed paths that the base currently does not have.
    fn listing(&self) -> Result<Listing, LayerError> {
        Ok(Listing { entries: self.entries()?, over_nothing: Vec::new() })
    }

    /// Opens a regular file of this layer.
    fn open(&self, path: &RelPath) -> Result<Box<dyn Read + Send>, LayerError>;

    /// Returns the names of an entry's extended attributes, without those of the engine.
    fn xattrs(&self, path: &RelPath) -> Result<Vec<OsString>, LayerError>;

    /// Returns true when an entry began as a file or directory of the base, and is not known to have been moved
    /// here from another path.
    fn is_copy(&self, path: &RelPath) -> Result<bool, LayerError>;
}

/// Failure to read a layer.
#[derive(Debug, Error)]
pub enum LayerError {
    /// A file system operation failed.
    #[error("cannot read `{}` in the layer", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A moved directory still depends on its original path in the base.
    #[error("`{}` was moved from `{}`, which can no longer be read", path.display(), from.display())]
    Moved {
        /// Path in the layer.
        path: PathBuf,
        /// Path in the base.
        from: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The stored data is invalid, by damage or by intent.
    #[error("the layer is damaged: {what}")]
    Damaged {
        /// Inconsistency that was found.
        what: String,
    },
    /// The layer's database was written by a newer version.
    #[error(
        "the database has schema version `{found}`; this program supports {}",
        crate::store::schema::VERSION
    )]
    Newer {
        /// Version that was found.
        found: String,
    },
    /// SQLite returned an error.
    #[error("cannot read the layer's database")]
    Database(#[from] rusqlite::Error),
}

impl Hint for LayerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { .. } => Some("run `agent-sandbox fs fsck` to list all problems".into()),
            Self::Moved { path, from, .. } => Some(format!(
                "restore `{}` in the base, or remove `{}` from the layer; no data is lost until then",
                from.display(),
                path.display()
            )),
            Self::Newer { .. } => Some(crate::store::NEWER.into()),
            Self::Io { .. } | Self::Database(_) => None,
        }
    }
}
