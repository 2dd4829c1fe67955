//! Content of both sides of a change.

use std::io::Read;

use super::{Change, DiffError, LineDiff, Origins, Side};
use crate::Layer;
use crate::host::{HostTree, is_out_of_reach};

/// Maximum size of files that are compared line by line.
pub const MAX_TEXT: u64 = 4 << 20;
/// Maximum size of content in a patch.
pub(crate) const MAX_BINARY: u64 = 256 << 20;
/// Length of the prefix without a zero byte that makes a file a text, as in git.
const LOOK_FOR_ZERO: usize = 8000;

/// Sources of the bytes of changes.
#[derive(Clone, Copy)]
pub struct View<'v> {
    /// The layer.
    pub layer: &'v dyn Layer,
    /// The host's tree.
    pub host: &'v HostTree,
    /// The host's tree at the start of the session.
    pub record: &'v dyn Origins,
}

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(Vec<u8>),
    /// Anything else.
    Binary(Vec<u8>),
    /// A file that is too large to read, with its size.
    Large(u64),
}

/// Size of the change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Added and removed lines.
    Lines {
        /// Added.
        added: usize,
        /// Removed.
        removed: usize,
    },
    /// Sizes of files that are not text.
    Bytes {
        /// Before.
        before: u64,
        /// After.
        after: u64,
    },
    /// Changes without content: directories, links, modes.
    Nothing,
}

impl Content {
    /// Returns the bytes, if they were read.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) | Self::Binary(bytes) => Some(bytes),
            Self::Large(_) => None,
        }
    }

    /// Returns the length.
    pub fn size(&self) -> u64 {
        match self {
            Self::Text(bytes) | Self::Binary(bytes) => bytes.len() as u64,
            Self::Large(size) => *size,
        }
    }

    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let head = &bytes[..bytes.len().min(LOOK_FOR_ZERO)];
        if head.contains(&0) || bytes.len() as u64 > MAX_TEXT {
            Self::Binary(bytes)
        } else {
            Self::Text(bytes)
        }
    }

    fn read(from: impl Read, limit: u64) -> std::io::Result<Self> {
        let mut bytes = Vec::new();
        from.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Ok(Self::Large(bytes.len() as u64));
        }
        Ok(Self::of(bytes))
    }
}

impl View<'_> {
    /// Returns the content before: the host's file, or the ancestor if the host changed since.
    pub fn before(&self, change: &Change, limit: u64) -> Result<Option<Content>, DiffError> {
        let size = match &change.before {
            Some(Side::File { size, .. }) => *size,
            Some(Side::Symlink { target }) => {
                return Ok(Some(Content::Text(target.as_encoded_bytes().to_vec())));
            }
            _ => return Ok(None),
        };
        if change.meanwhile
            && let Some(kept) = self.record.ancestor(&change.path)?
        {
            return Ok(Some(Content::of(kept)));
        }
        if size > limit {
            return Ok(Some(Content::Large(size)));
        }
        let failed = |error| DiffError::host(&change.path, error);
        let (file, _) = match self.host.open_file(&change.path) {
            // An unreadable file is described by its size, like one that is too large.
            Err(error) if is_out_of_reach(&error) => return Ok(Some(Content::Large(size))),
            opened => opened.map_err(failed)?,
        };
        Content::read(file, limit).map(Some).map_err(failed)
    }

    /// Returns the layer's content.
    pub fn after(&self, change: &Change, limit: u64) -> Result<Option<Content>, DiffError> {
        match &change.after {
            Some(Side::Symlink { target }) => {
                Ok(Some(Content::Text(target.as_encoded_bytes().to_vec())))
            }
            Some(Side::File { size, .. }) if *size > limit => Ok(Some(Content::Large(*size))),
            Some(Side::File { .. }) => {
                let failed = |error| DiffError::host(&change.path, error);
                let file = self.layer.open(&change.path)?;
                Content::read(file, limit).map(Some).map_err(failed)
            }
            _ => Ok(None),
        }
    }

    /// Returns the size of a change.
    pub fn count(&self, change: &Change) -> Result<Count, DiffError> {
        let is_file = |side: &Option<Side>| matches!(side, Some(Side::File { .. }));
        if !is_file(&change.before) && !is_file(&change.after) {
            return Ok(Count::Nothing);
        }
        let before = self.before(change, MAX_TEXT)?.unwrap_or(Content::Text(Vec::new()));
        let after = self.after(change, MAX_TEXT)?.unwrap_or(Content::Text(Vec::new()));
        Ok(match (&before, &after) {
            (Content::Text(old), Content::Text(new)) => {
                let (added, removed) = LineDiff::new(old, new).counts();
                Count::Lines { added, removed }
            }
            _ => Count::Bytes { before: before.size(), after: after.size() },
        })
    }
}
