//! Changes of a layer, compared with the current files on the host.
//!
//! ```text
//! compare   layer, host, record → one change for each path that differs
//! content   one side of a change as bytes, or as too large to read
//! lines     two texts → hunks
//! patch     changes → a patch for `git apply`
//! ```
//! Nothing here runs a program, and file settings of a repository (`.gitattributes`, textconv) are ignored.

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
    /// True when the host changed since. `before` is then the state that the layer started from, if that is known.
    pub meanwhile: bool,
    /// Permission bits of the layer's file or directory. A new one on the host gets no others.
    pub mode: Option<u32>,
    /// Attributes that are never applied.
    pub odd: Vec<Odd>,
}

impl Change {
    /// Returns true when each side is a directory or missing.
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
        /// True when its owner can execute it.
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

/// Attribute of an entry that is never applied to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Odd {
    /// Set-user-ID or set-group-ID bit.
    SetId,
    /// Extended attributes, such as capabilities and ACLs.
    Xattrs(Vec<OsString>),
    /// Several names of one file. Each is applied as a separate file.
    HardLinks,
}

/// All changes, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes, one for each path.
    pub list: Vec<Change>,
    /// True when more files are deleted than are listed.
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
    /// The output cannot be written, for example because the pipe is closed or the disk is full.
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
