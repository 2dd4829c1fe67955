//! Whole trees, in and out: from a database, a directory or an archive, to any of them.
//!
//! What comes in may be hostile, and so may be what lies where it goes. Every write is relative to
//! an open directory and follows no link; what a destination cannot hold is refused by name.

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

/// One entry on its way.
#[derive(Debug, Clone)]
pub struct Item {
    /// Where in the tree.
    pub path: RelPath,
    /// What it is.
    pub inode: Inode,
    /// Where a symbolic link points.
    pub target: Option<OsString>,
    /// The same number for all names of one file that has several.
    pub same: Option<u64>,
    /// Extended attributes.
    pub xattrs: Vec<(OsString, Vec<u8>)>,
}

/// Where a tree goes. Directories come before what is in them.
pub trait Sink {
    /// The root directory.
    fn root(&mut self, inode: &Inode) -> Result<(), TransferError>;

    /// One entry; a regular file with its content, which is exactly as long as the inode says.
    fn put(&mut self, item: &Item, content: Option<&mut dyn Read>) -> Result<(), TransferError>;

    /// Everything has come.
    fn finish(self: Box<Self>) -> Result<(), TransferError>;
}

/// Something that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where in the tree.
    pub path: PathBuf,
    /// What of it is missing at the destination.
    pub what: &'static str,
}

/// A transfer as seen from outside: what is let go of, and how far it is.
pub struct Watch<'w> {
    /// True when what the destination cannot hold is left out; it is an error otherwise.
    pub skip: bool,
    /// What was left out.
    pub notes: Vec<Note>,
    /// Called with the count of entries and bytes so far.
    pub progress: &'w mut dyn FnMut(u64, u64),
    items: u64,
    bytes: u64,
}

impl<'w> Watch<'w> {
    /// A transfer that has not begun.
    pub fn new(skip: bool, progress: &'w mut dyn FnMut(u64, u64)) -> Self {
        Self { skip, notes: Vec::new(), progress, items: 0, bytes: 0 }
    }

    /// Hands an entry over, or notes why not.
    fn hand(
        &mut self,
        sink: &mut dyn Sink,
        item: &Item,
        content: Option<Box<dyn Read + '_>>,
    ) -> Result<(), TransferError> {
        // A file that grows or shrinks meanwhile must not break what is written about it.
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

/// Why a tree did not arrive.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The destination cannot hold something, or must not.
    #[error("`{}` cannot be written there: {what}", path.display())]
    Refused {
        /// What.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// The destination is there already.
    #[error("`{}` is there already, and is no empty directory", .0.display())]
    Exists(PathBuf),
    /// Something could not be read or written.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// Read or write.
        verb: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive makes no sense.
    #[error("the archive is damaged: {0}")]
    Archive(String),
    /// The database at the source.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The database at the destination.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl From<rusqlite::Error> for TransferError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Layer(error.into())
    }
}

impl TransferError {
    /// The same failure, with the place on the host that it is about.
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
            Self::Refused { .. } => Some("`--skip` leaves such things out and names them".into()),
            Self::Exists(_) => Some("name a place that is not there yet".into()),
            Self::Layer(error) => error.hint(),
            Self::Create(error) => error.hint(),
            Self::Io { .. } | Self::Archive(_) => None,
        }
    }
}

/// Bits that give whoever runs a file another's rights. They do not travel.
const SET_ID: u32 = 0o6000;
