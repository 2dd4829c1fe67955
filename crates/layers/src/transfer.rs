//! Import and export of whole trees, from a database, a directory or an archive to any of these.
//!
//! The source may be hostile, and so may existing files at the destination. Every write is relative to an open
//! directory and follows no link. An entry that a destination cannot store is refused by name.

mod from_database;
mod from_dir;
mod from_tar;
mod from_path;
mod to_database;
mod to_dir;
mod to_tar;

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sandbox_protocol::Hint;
use thiserror::Error;

use crate::RelPath;
use crate::change::LayerError;
use crate::database::{CreateError, Inode};

pub use from_database::from_database;
pub use from_dir::from_dir;
pub use from_path::from_path;
pub use from_tar::from_tar;
pub use to_database::ToDatabase;
pub use to_dir::ToDir;
pub use to_tar::ToTar;

/// Entry in transfer.
#[derive(Debug, Clone)]
pub struct Item {
    /// Path in the tree.
    pub path: RelPath,
    /// Attributes.
    pub inode: Inode,
    /// Target of a symbolic link.
    pub target: Option<OsString>,
    /// Number shared by all names of a hard-linked file.
    pub same: Option<u64>,
    /// Extended attributes.
    pub xattrs: Vec<(OsString, Vec<u8>)>,
}

/// Destination of a tree. Directories arrive before their content.
pub trait Sink {
    /// Receives the root directory.
    fn root(&mut self, inode: &Inode) -> Result<(), TransferError>;

    /// Receives an entry. A regular file comes with its content, which is exactly as long as the inode says.
    fn put(&mut self, item: &Item, content: Option<&mut dyn Read>) -> Result<(), TransferError>;

    /// Completes the transfer.
    fn finish(self: Box<Self>) -> Result<(), TransferError>;
}

/// Entry that was left out, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Path in the tree.
    pub path: PathBuf,
    /// Property that the destination does not store.
    pub what: &'static str,
}

/// Options and progress of a transfer.
pub struct Watch<'w> {
    /// True to leave out what the destination cannot store, which is an error otherwise.
    pub skip: bool,
    /// Entries left out so far.
    pub notes: Vec<Note>,
    /// Called with the number of entries and bytes so far.
    pub progress: &'w mut dyn FnMut(u64, u64),
    items: u64,
    bytes: u64,
}

impl<'w> Watch<'w> {
    /// Creates the state of a transfer that has not begun.
    pub fn new(skip: bool, progress: &'w mut dyn FnMut(u64, u64)) -> Self {
        Self { skip, notes: Vec::new(), progress, items: 0, bytes: 0 }
    }

    /// Passes an entry to the sink, or notes why it was left out.
    fn hand(
        &mut self,
        sink: &mut dyn Sink,
        item: &Item,
        content: Option<Box<dyn Read + '_>>,
    ) -> Result<(), TransferError> {
        // Pad or cut the content to the recorded size: the file may grow or shrink meanwhile.
        let size = item.inode.size;
        let mut exact = content.map(|content| content.chain(io::repeat(0)).take(size));
        let handed = sink.put(item, exact.as_mut().map(|content| content as &mut dyn Read));
        self.items += 1;
        self.bytes += if exact.is_some() { size } else { 0 };
        (self.progress)(self.items, self.bytes);
        match handed {
            Err(TransferError::Refused { path, what }) if self.skip => {
                self.notes.push(Note { path, what });
                Ok(())
            }
            other => other,
        }
    }
}

/// Error of a transfer.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The destination cannot store an entry, or must not.
    #[error("cannot transfer `{}`: {what}", path.display())]
    Refused {
        /// Path of the entry.
        path: PathBuf,
        /// Reason.
        what: &'static str,
    },
    /// The destination already exists.
    #[error("`{}` already exists and is not an empty directory", .0.display())]
    Exists(PathBuf),
    /// A read or a write failed.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// Path of the entry.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The archive is invalid.
    #[error("the archive is damaged: {0}")]
    Archive(String),
    /// The source database failed.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The destination database failed.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl From<rusqlite::Error> for TransferError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Layer(error.into())
    }
}

impl TransferError {
    /// Completes the error with the path on the host.
    fn named(self, whole: &Path) -> Self {
        match self {
            Self::Io { verb: "read", source, .. } => {
                Self::Io { verb: "read", path: whole.to_owned(), source }
            }
            other => other,
        }
    }

    fn refused(item: &Item, what: &'static str) -> Self {
        Self::Refused { path: item.path.as_path().to_owned(), what }
    }

    fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb: "write", path, source }
    }

    fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb: "read", path, source }
    }
}

impl Hint for TransferError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { .. } => {
                Some("pass `--skip` to leave out such entries and list them".into())
            }
            Self::Exists(_) => Some("choose a path that does not exist yet".into()),
            Self::Layer(error) => error.hint(),
            Self::Create(error) => error.hint(),
            Self::Io { .. } | Self::Archive(_) => None,
        }
    }
}

/// Set-user-ID and set-group-ID bits, which are not transferred.
const SET_ID: u32 = 0o6000;
