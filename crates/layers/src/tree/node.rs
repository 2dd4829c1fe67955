//! What is known of one file while the kernel knows it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::base::Content;
use crate::store::{Inode, Kind, Time};

/// A file of the view.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Node {
    /// Its inode in the layer; nothing while it is the base's alone.
    pub(super) delta: Option<u64>,
    /// What it is; newer than the database while `dirty`.
    pub(super) inode: Inode,
    /// How often the kernel was told of it.
    pub(super) lookups: u64,
    /// How often it is open.
    pub(super) opens: u32,
    /// A name that it has. The kernel holds the parents of what it knows, so that the way up is there.
    pub(super) place: Option<NodeName>,
    /// In the base: its own path, or for a directory of the layer where its other entries come from.
    pub(super) base: Option<Box<Path>>,
    /// Its content, while it is open.
    pub(super) body: Body,
    /// True when the inode must be written.
    pub(super) dirty: bool,
    /// True when the database knows that it has no name left.
    pub(super) orphan: bool,
    /// True when the database has no content of it yet.
    pub(super) fresh: bool,
    /// While programs write past us to the plain file: what that looked like last.
    pub(super) past: Option<Past>,
    /// True when the kernel was given its content, and is being given it right now.
    pub(super) fed: bool,
    pub(super) feeding: bool,
    /// True when anybody ever did: what the kernel has in its cache may be old.
    pub(super) passed: bool,
}

/// Length and time of a plain file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) size: u64,
    pub(super) mtime: Time,
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub(super) struct NodeName {
    pub(super) parent: u64,
    pub(super) name: Box<OsStr>,
}

/// Where the content of an open file is.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Nobody has it open.
    Closed,
    /// In the base.
    Base(Arc<dyn Content>),
    /// In the database.
    Stored,
    /// In the database; this is a copy of it.
    Copy(Arc<File>),
    /// Here, to be written to the database.
    Buffer {
        /// All of it.
        bytes: Vec<u8>,
        /// True when the database does not have it yet.
        dirty: bool,
    },
    /// Beside the database.
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
            past: None,
            fed: false,
            feeding: false,
            passed: false,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.inode.kind()
    }

    /// Returns true when it is known under a name.
    pub(super) fn is_at(&self, parent: u64, name: &OsStr) -> bool {
        self.place.as_ref().is_some_and(|at| at.parent == parent && *at.name == *name)
    }

    /// Returns true when nobody holds it.
    pub(super) fn is_idle(&self) -> bool {
        self.lookups == 0 && self.opens == 0
    }
}

impl NodeName {
    pub(super) fn new(parent: u64, name: &OsStr) -> Self {
        Self { parent, name: name.into() }
    }
}
