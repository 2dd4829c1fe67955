//! What a layer changed, against the host's tree as it is.
//!
//! ```text
//! compare   layer, host, record → changes: one for each path that really differs
//! content   one side of a change as bytes, or as too large to look into
//! lines     two texts → hunks
//! patch     changes → what `git apply` takes
//! ```
//! Nothing here runs a program, and nothing that a repository says about its files is obeyed.

mod compare;
mod content;
mod lines;
mod origin;
mod patch;
pub mod listing;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::{LayerError, RelPath};

pub use compare::{MAX_GONE, compare};
pub use content::{Content, Count, MAX_TEXT, View};
pub use lines::{Hunk, LineDiff};
pub(crate) use lines::{lines, steps};
pub use origin::{Digest, Origin, Past, Record};
pub use patch::write_patch;

/// What differs at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: RelPath,
    /// What was there.
    pub before: Option<Side>,
    /// What the layer has.
    pub after: Option<Side>,
    /// The host changed since: `before` is what the layer was made from, where that is known.
    pub meanwhile: bool,
    /// Permission bits of the layer's file or directory: a new one gets no others.
    pub mode: Option<u32>,
    /// What of it never lands.
    pub odd: Vec<Odd>,
}

impl Change {
    /// Returns true when neither side is anything but a directory.
    pub(crate) fn is_of_directory(&self) -> bool {
        let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
        is_dir(&self.before) && is_dir(&self.after)
    }
}

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: OsString,
    },
    /// A directory.
    Dir,
    /// A FIFO, a socket or a device.
    Special,
}

/// What of an entry never lands on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Odd {
    /// Set-user-id or set-group-id.
    SetId,
    /// Extended attributes: capabilities, access lists, anything.
    Xattrs(Vec<OsString>),
    /// Several names of one file: each lands as a file of its own.
    HardLinks,
}

/// All changes, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// One for each path.
    pub list: Vec<Change>,
    /// More goes than is listed.
    pub truncated: bool,
}

impl Changes {
    /// What changed at a path.
    pub fn get(&self, path: &RelPath) -> Option<&Change> {
        let at = self.list.binary_search_by(|change| change.path.cmp(path)).ok()?;
        self.list.get(at)
    }
}

/// Why changes cannot be told.
#[derive(Debug, Error)]
pub enum DiffError {
    /// The layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The host's tree cannot be read.
    #[error("cannot read `{}`", path.display())]
    Host {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The reader of the output has gone, or its disk is full.
    #[error("cannot write the difference")]
    Output(#[source] io::Error),
}

impl DiffError {
    pub(crate) fn host(path: &RelPath, source: io::Error) -> Self {
        Self::Host { path: path.as_path().to_path_buf(), source }
    }
}

impl Hint for DiffError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}
