//! Changes of a layer, compared with the host's present tree.
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

pub(crate) use compare::MAX_GONE;
pub use compare::compare;
pub use content::{Content, Count, MAX_TEXT, View};
pub use lines::{Hunk, LineDiff};
pub(crate) use lines::{lines, steps};
pub use origin::{Digest, Origin, Origins, Past};
pub use patch::write_patch;

/// Difference at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: RelPath,
    /// State on the host.
    pub before: Option<Side>,
    /// State in the layer.
    pub after: Option<Side>,
    /// The host changed since: `before` is what the layer was made from, where that is known.
    pub meanwhile: bool,
    /// Permission bits of the layer's file or directory: a new one gets no others.
    pub mode: Option<u32>,
    /// Parts of it that never land.
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
        /// True when its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// Target.
        target: OsString,
    },
    /// A directory.
    Dir,
    /// A FIFO, a socket or a device.
    Special,
}

/// Part of an entry that never lands on the host.
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
    /// Returns the change at a path.
    pub fn get(&self, path: &RelPath) -> Option<&Change> {
        let at = self.list.binary_search_by(|change| change.path.cmp(path)).ok()?;
        self.list.get(at)
    }
}

/// Failure to compare.
#[derive(Debug, Error)]
pub enum DiffError {
    /// The layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The host's tree cannot be read.
    #[error("cannot read `{}`", path.display())]
    Host {
        /// The path.
        path: PathBuf,
        /// Reason.
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
