//! Origins: states of the host before the first change of a layer, which are the ancestors of both sides.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::host::{HostEntry, HostTree, Kind, Stamp, is_out_of_reach};
use crate::{LayerError, RelPath};

/// Hash of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes a stream.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match from.read(&mut buffer)? {
                0 => return Ok(Self(hash.finalize().into())),
                count => hash.update(&buffer[..count]),
            }
        }
    }
}

/// State of the host at a path when the layer first changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// There was no entry.
    Absent,
    /// There was no entry when it was recorded. Its directory changed while the session ran, so the entry may have been
    /// removed.
    Perhaps,
    /// This entry.
    There(Past),
    /// Unknown, because the path changed while the session ran or was never recorded.
    Unknown,
}

/// Attributes of a past entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// File, directory or link.
    pub kind: Kind,
    /// Attributes that show an unchanged file without reading it.
    pub stamp: Stamp,
    /// True when the owner could execute it.
    pub executable: bool,
    /// Hash of a file's content or of a link's target.
    pub digest: Option<Digest>,
}

/// Record of a session's base. It covers every path in the layer, and everything below a directory that the layer
/// removed, replaced or made opaque. An unrecorded path is [`Origin::Unknown`] and never overwritten.
pub trait Origins {
    /// Returns the state of a path.
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError>;

    /// Returns the original bytes, if they were stored.
    fn ancestor(&self, path: &RelPath) -> Result<Option<Vec<u8>>, LayerError>;
}

impl Past {
    /// Returns true when the current entry is the recorded one, by stamp or else by content. A backup, a checkout back
    /// and forth or a new hard link change only the stamp.
    pub(crate) fn is(&self, now: &HostEntry, path: &RelPath, host: &HostTree) -> io::Result<bool> {
        if self.kind != now.kind {
            return Ok(false);
        }
        match now.kind {
            Kind::Dir => Ok(true),
            _ if self.stamp == now.stamp => Ok(true),
            Kind::File if self.executable != now.is_executable() => Ok(false),
            Kind::File => match host.open_file(path) {
                Err(error) if is_out_of_reach(&error) => Ok(false),
                opened => Ok(self.digest == Some(Digest::read(opened?.0)?)),
            },
            Kind::Symlink => {
                let target = host.read_link(path)?;
                Ok(self.digest == Some(Digest::of(target.as_encoded_bytes())))
            }
            Kind::Special => Ok(false),
        }
    }
}
