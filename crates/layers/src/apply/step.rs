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
    /// Where below it.
    #[serde(with = "raw")]
    pub path: RelPath,
    /// What is there, in full: enough to put it back.
    pub before: Option<Was>,
    /// What will be there.
    pub after: Option<Goal>,
    /// What the session knew of its base here, for the way back.
    pub origin: Origin,
    /// Permission bits that a new file or directory has in the layer: it gets no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// What stands at a path before a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Was {
    /// File, directory or link.
    pub kind: Kind,
    /// To see by that nobody changed it since.
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
    /// How many names it has; 0 in journals that do not say.
    #[serde(default)]
    pub links: u64,
}

/// What will stand at a path.
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
        /// Whether it is a program.
        executable: bool,
        /// Where its bytes are.
        source: Source,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: Raw,
    },
}

/// Where the bytes of a new file are.
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

    /// Whether this step only takes something away.
    pub fn is_removal(&self) -> bool {
        self.after.is_none()
    }
}
