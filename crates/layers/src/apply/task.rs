//! The change that a step makes on the host, as data.

use std::io::Read;

use sandbox_linux::raw::Raw;

use super::write::Attributes;
use crate::RelPath;
use crate::diff::Digest;

/// Change that a step makes on the host.
pub(super) enum Task {
    /// Removes an empty directory.
    RemoveDir,
    /// Removes a directory, unless it is not empty.
    RemoveDirIfEmpty,
    /// Removes a file or a link.
    Take,
    /// Creates a directory.
    MakeDir(Attributes),
    /// Creates a link.
    Link(Raw, Attributes),
    /// Replaces a file elsewhere in the tree.
    Rewrite(RelPath, Vec<u8>, Attributes),
    /// Writes a file that must have this content.
    File(Box<dyn Read + Send>, Option<Digest>, Attributes),
}
