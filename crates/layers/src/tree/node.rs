//! Nodes: in-memory state of the files that the kernel knows.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::base::Content;
use crate::store::{Inode, Kind, Time};

/// File of the view.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Node {
    /// Inode in the layer, if the file was copied up or created.
    pub(super) delta: Option<u64>,
    /// Attributes; newer than the database while `dirty`.
    pub(super) inode: Inode,
    /// Number of lookups by the kernel (see `FUSE_FORGET`).
    pub(super) lookups: u64,
    /// Number of times it is open.
    pub(super) opens: u32,
    /// One of its names. The kernel also holds the parents of its nodes, so paths can be built
    /// upwards.
    pub(super) place: Option<NodeName>,
    /// Path in the base: its own, or the source of a directory's other entries.
    pub(super) base: Option<Box<Path>>,
    /// Content, while it is open.
    pub(super) body: Body,
    /// True when the inode must be written.
    pub(super) dirty: bool,
    /// True when the database records it as an orphan.
    pub(super) orphan: bool,
    /// True when the database has no content for it yet.
    pub(super) fresh: bool,
    /// Last known state of the plain file during passthrough.
    pub(super) passthrough: Option<FileState>,
    /// True when its content was preloaded into the kernel; `preloading` while that runs.
    pub(super) preloaded: bool,
    pub(super) preloading: bool,
    /// True after any passthrough: the kernel's page cache of the FUSE file may be stale.
    pub(super) ever_passthrough: bool,
}

/// Length and time of a plain file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) size: u64,
    pub(super) mtime: Time,
}

/// Name in a directory.
#[derive(Debug, Clone)]
pub(super) struct NodeName {
    pub(super) parent: u64,
    pub(super) name: Box<OsStr>,
}

/// Location of an open file's content.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Not open.
    Closed,
    /// In the base.
    Base(Arc<dyn Content>),
    /// In the database.
    Stored,
    /// In the database, with a complete copy.
    Copy(Arc<File>),
    /// In memory, to be written to the database.
    Buffer {
        /// Complete content.
        bytes: Vec<u8>,
        /// True when the database does not have it yet.
        dirty: bool,
    },
    /// In a loose file beside the database.
    Loose(Arc<File>),
}

impl Node {
    pub(super) fn new(inode: Inode, place: Option<NodeName>) -> Self {
        Self {
            delta: None,
            inode,
            lookups: 0,
            opens: 0,
            place,
            base: None,
            body: Body::Closed,
            dirty: false,
            orphan: false,
            fresh: false,
            passthrough: None,
            preloaded: false,
            preloading: false,
            ever_passthrough: false,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.inode.kind()
    }

    /// Returns true when this is its recorded name.
    pub(super) fn is_at(&self, parent: u64, name: &OsStr) -> bool {
        self.place.as_ref().is_some_and(|at| at.parent == parent && *at.name == *name)
    }

    /// Returns true when it has no lookups and is not open.
    pub(super) fn is_idle(&self) -> bool {
        self.lookups == 0 && self.opens == 0
    }
}

impl NodeName {
    pub(super) fn new(parent: u64, name: &OsStr) -> Self {
        Self { parent, name: name.into() }
    }
}
