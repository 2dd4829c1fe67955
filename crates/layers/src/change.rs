//! What a layer holds on top of its base, in words that both engines share.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

use sandbox_protocol::Hint;
use thiserror::Error;

use crate::path::RelPath;

/// What of a file's inode a layer keeps.
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
    /// How many names the file has in the layer.
    pub links: u64,
}

/// What stands at one path of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// What the base has here is gone, with all below it.
    Gone,
    /// A directory. An opaque one shows nothing of the base's directory at this path.
    Dir {
        /// Its inode.
        meta: Meta,
        /// Whether the base is hidden below.
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
        /// Where it points, unread.
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
pub struct Entry {
    /// Where.
    pub path: RelPath,
    /// What.
    pub node: Node,
}

/// Everything that a layer stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the order of [`Layer::entries`].
    pub entries: Vec<Entry>,
    /// Whiteouts over nothing. They take effect again when the base gets such a path.
    pub over_nothing: Vec<RelPath>,
}

/// A stack of changes over a base directory, read as one. Reading it costs by what changed.
pub trait Layer: Send + Sync {
    /// All entries, parents before children, names in byte order. A directory that was moved here
    /// from elsewhere in the base is listed whole: the reader needs no knowledge of redirects.
    fn entries(&self) -> Result<Vec<Entry>, LayerError>;

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

/// Why a layer cannot be read.
#[derive(Debug, Error)]
pub enum LayerError {
    /// The file system below refused.
    #[error("cannot read `{}` in the layer", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory was moved, and still depends on where it was in the base.
    #[error("`{}` was moved from `{}`, and cannot be read from there any more", path.display(), from.display())]
    Moved {
        /// Where it is.
        path: PathBuf,
        /// Where it was in the base.
        from: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// What is stored makes no sense: damaged, or made to confuse.
    #[error("the layer is damaged: {what}")]
    Damaged {
        /// What was found.
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
