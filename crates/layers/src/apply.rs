//! Applying a layer's changes to the host without losing or planting anything.
//!
//! ```text
//! plan      changes and selection → steps, and changes that are held back, refused or in conflict
//! journal   the steps and everything they replace, on disk before the first write
//! perform   each step: prepare, exchange, check the replaced file
//! undo      the same steps backwards, from the journal
//! ```
//! Every intermediate state is recognised by content, so a killed apply can be completed or reverted from any point.

mod raw;
mod merge;
mod step;
mod plan;
mod expected;
mod write;
mod link;
mod planner;
mod journal;
mod task;
mod unit;
mod tidy;
mod batch;
mod perform;
mod undo;

use std::io;
use std::path::PathBuf;

use sandbox_protocol::Hint;
use thiserror::Error;

use crate::diff::{DiffError, Origin, Origins};
use crate::host::HostTree;
use crate::{Layer, LayerError, RelPath};

pub use journal::{Journal, Status};
pub(crate) use link::leads_out;
pub use perform::{Progress, perform, record_applied, resume};
pub use plan::{Chosen, Left, Made, Plan, Wish};
pub use planner::plan;
pub use sandbox_linux::raw::Raw;
pub use step::{Goal, Original, Source, Step};
pub(crate) use tidy::tidy_root;
pub(crate) use undo::recover_base;
pub use undo::{Changed, Undone, record_reverted, undo};
pub(crate) use write::original;

/// Root of a session with its host directory, its layer and the record of its base.
pub struct Target<'t> {
    /// Number in the session.
    pub number: usize,
    /// Directory on the host.
    pub host: &'t HostTree,
    /// The layer.
    pub layer: &'t dyn Layer,
    /// The host at the start of the session.
    pub record: &'t dyn Origins,
    /// Bytes that are free on the host's filesystem.
    pub free: u64,
}

/// Writable record of a session's base.
pub trait RecordOrigin {
    /// Records the state of the base that the layer starts from.
    fn set(
        &mut self,
        path: &RelPath,
        origin: &Origin,
        ancestor: Option<&[u8]>,
    ) -> Result<(), LayerError>;
}

/// Saves the record of a session's base. It is called at a point of an apply or an undo where a kill right before or
/// right after it loses nothing.
pub type SaveBase<'k> = &'k mut dyn FnMut(&Journal, Base) -> Result<(), ApplyError>;

/// State of the base to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The host after the journal's steps: see [`record_applied`].
    New,
    /// The host before them: see [`record_reverted`].
    Old,
}

/// Failure to apply changes.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The changes cannot be determined.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A file operation on the host failed.
    #[error("cannot change `{}`", path.display())]
    Host {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// Another process changed the path at the same time.
    #[error("`{}` was changed by another process", path.display())]
    Raced {
        /// The path.
        path: PathBuf,
    },
    /// The layer changed since the plan.
    #[error("`{}` changed in the session after it was shown", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A step failed, and the steps before it were reverted.
    #[error("nothing was applied")]
    RolledBack {
        /// First failure.
        source: Box<ApplyError>,
    },
    /// A step failed, and so did reverting the steps before it.
    #[error("the apply stopped half-way and could not be reverted: {second}")]
    HalfWay {
        /// First failure.
        source: Box<ApplyError>,
        /// Failure to revert.
        second: Box<ApplyError>,
    },
    /// The journal cannot be written.
    #[error("cannot write the journal in `{}`", path.display())]
    Journal {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The record of the session's base cannot be written.
    #[error("cannot record the base of the session")]
    Base {
        /// Reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The journal is invalid.
    #[error("the journal `{}` is damaged", path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: serde_json::Error,
    },
    /// There is not enough disk space.
    #[error("not enough space in `{}`: {needed} bytes needed, {free} free", place.display())]
    NoSpace {
        /// The path.
        place: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
}

impl ApplyError {
    pub(crate) fn at(path: &RelPath, source: io::Error) -> Self {
        Self::Host { path: path.as_path().to_path_buf(), source }
    }
}

impl Hint for ApplyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Raced { .. } | Self::RolledBack { .. } => {
                Some("review with `agent-sandbox diff`, then try again".into())
            }
            Self::Changed { .. } => Some("stop the commands running in the session, then try again".into()),
            Self::HalfWay { .. } | Self::Base { .. } => Some(
                "complete it with `agent-sandbox apply --resume`, or revert it with `agent-sandbox undo`"
                    .into(),
            ),
            Self::NoSpace { .. } => Some("free some space, or apply fewer paths".into()),
            _ => None,
        }
    }
}
