//! State of the host at a path when a layer first changed it: the ancestor of both.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::host::{HostEntry, HostTree, Kind, Stamp, is_out_of_reach};
use crate::{LayerError, RelPath};

/// A content's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of everything that can be read.
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
    /// Nothing.
    Absent,
    /// Nothing when it was looked at; but its directory changed while the session ran, so that it
    /// may have been removed.
    Perhaps,
    /// This.
    There(Past),
    /// Not known: it changed while the session ran, or was never looked at.
    Unknown,
}

/// Attributes of a past entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// File, directory, link.
    pub kind: Kind,
    /// To see by that it is still the same, without reading it.
    pub stamp: Stamp,
    /// True when the owner could execute it.
    pub executable: bool,
    /// The content of a file, or the target of a link.
    pub digest: Option<Digest>,
}

/// A session's memory of its base: of every path that its layer has, and of everything below a
/// directory that the layer removed, replaced or made opaque. What is not on record is
/// [`Origin::Unknown`], and never overwritten.
pub trait Origins {
    /// Returns the state of a path.
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError>;

    /// The bytes that were there, if they were kept.
    fn ancestor(&self, path: &RelPath) -> Result<Option<Vec<u8>>, LayerError>;
}

impl Past {
    /// Returns true when what is there now is what was there. By its stamp; else by its content, because a
    /// backup, a checkout to and fro or a new name changes the stamp alone.
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
