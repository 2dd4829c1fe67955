//! The content of a layer, in types that both engines share.

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
    /// A directory. An opaque one shows nothing of the base's directory at this path.
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
    /// Returns true when nothing of the base is seen at this path.
    pub fn hides(&self) -> bool {
        !matches!(self, Self::Dir { opaque: false, .. })
    }
}

/// One entry of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerEntry {
    /// The path.
    pub path: RelPath,
    /// State of the path.
    pub node: Node,
}

/// Everything that a layer stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the order of [`Layer::entries`].
    pub entries: Vec<LayerEntry>,
    /// Whiteouts over nothing. They take effect again when the base gets such a path.
    pub over_nothing: Vec<RelPath>,
}

/// A stack of changes over a base directory, read as one. Reading it costs by what changed.
pub trait Layer: Send + Sync {
    /// All entries, parents before children, names in byte order. A directory that was moved here
    /// from elsewhere in the base is listed whole: the reader needs no knowledge of redirects.
    fn entries(&self) -> Result<Vec<LayerEntry>, LayerError>;

    /// Lists the entries, and the removed paths that the base does not have at this moment.
    fn listing(&self) -> Result<Listing, LayerError> {
        Ok(Listing { entries: self.entries()?, over_nothing: Vec::new() })
    }

    /// The content of a regular file of this layer.
    fn open(&self, path: &RelPath) -> Result<Box<dyn Read + Send>, LayerError>;

    /// Names of the extended attributes of an entry, those of the engine itself left out.
    fn xattrs(&self, path: &RelPath) -> Result<Vec<OsString>, LayerError>;

    /// Returns true when an entry began as a file or directory of the base, and is not known to have been moved
    /// here from another path.
    fn is_copy(&self, path: &RelPath) -> Result<bool, LayerError>;
}

/// Failure to read a layer.
#[derive(Debug, Error)]
pub enum LayerError {
    /// The file system below refused.
    #[error("cannot read `{}` in the layer", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A directory was moved, and still depends on where it was in the base.
    #[error("`{}` was moved from `{}`, and cannot be read from there any more", path.display(), from.display())]
    Moved {
        /// Path in the layer.
        path: PathBuf,
        /// Path in the base.
        from: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The stored data is invalid: damaged, or crafted.
    #[error("the layer is damaged: {what}")]
    Damaged {
        /// Finding.
        what: String,
    },
    /// A newer version made the layer's database.
    #[error(
        "the database has tables of version `{found}`, and this program knows {}",
        crate::store::schema::VERSION
    )]
    Newer {
        /// Version that was found.
        found: String,
    },
    /// The database refused.
    #[error("cannot read the layer's database")]
    Database(#[from] rusqlite::Error),
}

impl Hint for LayerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { .. } => {
                Some("`agent-sandbox fs fsck` lists everything that is wrong with it".into())
            }
            Self::Moved { path, from, .. } => Some(format!(
                "bring `{}` back in the base, or remove `{}` where it is now; nothing is lost meanwhile",
                from.display(),
                path.display()
            )),
            Self::Newer { .. } => Some(crate::store::NEWER.into()),
            Self::Io { .. } | Self::Database(_) => None,
        }
    }
}
