//! Step of an apply as data: the state before and after.

use serde::{Deserialize, Serialize};

use super::raw;
use crate::RelPath;
use crate::diff::{Digest, Origin};
use crate::host::{Kind, Stamp};
use sandbox_linux::raw::Raw;

/// Change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the root.
    pub root: usize,
    /// Path below the root.
    #[serde(with = "raw")]
    pub path: RelPath,
    /// State before the step, with everything needed to restore it.
    pub before: Option<Original>,
    /// State after the step.
    pub after: Option<Goal>,
    /// State of the session's base at this path, for an undo.
    pub origin: Origin,
    /// Permission bits in the layer, which limit those of a new file or directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// State of a path before a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// File, directory or link.
    pub kind: Kind,
    /// Stamp that detects a later change.
    pub stamp: Stamp,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hash of a file's content.
    pub digest: Option<Digest>,
    /// Target of a link.
    pub target: Option<Raw>,
    /// Extended attributes that an undo can write.
    pub xattrs: Vec<(Raw, Raw)>,
    /// Number of names. 0 in journals of earlier versions.
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
        /// Hash.
        digest: Digest,
        /// Length.
        size: u64,
        /// True when it is executable.
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
    /// In the layer.
    Layer,
    /// In the journal, merged with the host's file or composed of hunks.
    Journal,
}

impl Step {
    /// Returns the number of bytes that the step writes.
    pub fn bytes(&self) -> u64 {
        match &self.after {
            Some(Goal::File { size, .. }) => *size,
            _ => 0,
        }
    }

    /// Returns true when the step only removes an entry.
    pub(crate) fn is_removal(&self) -> bool {
        self.after.is_none()
    }
}
