//! One step of an apply, as data: what is there, what will be there.

use serde::{Deserialize, Serialize};

use super::raw;
use crate::RelPath;
use crate::diff::{Digest, Origin};
use crate::host::{Kind, Stamp};
use sandbox_linux::raw::Raw;

/// One path, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The number of the root.
    pub root: usize,
    /// The path below it.
    #[serde(with = "raw")]
    pub path: RelPath,
    /// Everything that is needed to put the present state back.
    pub before: Option<Original>,
    /// State after the step.
    pub after: Option<Goal>,
    /// State of the session's base here, for an undo.
    pub origin: Origin,
    /// Permission bits that a new file or directory has in the layer: it gets no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// State of a path before a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// File, directory or link.
    pub kind: Kind,
    /// Tells if it changed since.
    pub stamp: Stamp,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The content of a file.
    pub digest: Option<Digest>,
    /// The target of a link.
    pub target: Option<Raw>,
    /// Extended attributes that we may write.
    pub xattrs: Vec<(Raw, Raw)>,
    /// Number of names; 0 in journals that do not say.
    #[serde(default)]
    pub links: u64,
}

/// State of a path after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// A directory.
    Dir,
    /// A regular file with exactly this content.
    File {
        /// Its hash.
        digest: Digest,
        /// Its length.
        size: u64,
        /// True when it is a program.
        executable: bool,
        /// Source of its bytes.
        source: Source,
    },
    /// A symbolic link.
    Symlink {
        /// Target.
        target: Raw,
    },
}

/// Source of the bytes of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// In the layer, as they are.
    Layer,
    /// In the journal: merged with the host's, or put together from hunks.
    Journal,
}

impl Step {
    /// Bytes that it writes.
    pub fn bytes(&self) -> u64 {
        match &self.after {
            Some(Goal::File { size, .. }) => *size,
            _ => 0,
        }
    }

    /// Returns true when this step only takes something away.
    pub(crate) fn is_removal(&self) -> bool {
        self.after.is_none()
    }
}
