//! Taking a layer's changes over to the host, so that nothing is lost and nothing is planted.
//!
//! ```text
//! plan      changes, what was asked for → steps, and what is held, refused or in conflict
//! journal   the steps and all that they replace, on disk before the first write
//! perform   step by step: prepare, exchange, check what came out
//! undo      the same steps backwards, from what the journal saved
//! ```
//! Every state on the way is recognised by content, so that a killed apply is completed or taken
//! back from wherever it stopped.

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
pub use perform::{Progress, perform, remember, resume};
pub use plan::{Chosen, Left, Made, Plan, Wish};
pub use planner::plan;
pub use sandbox_linux::raw::Raw;
pub use step::{Goal, Original, Source, Step};
pub(crate) use tidy::tidy_root;
pub(crate) use undo::recover_base;
pub use undo::{Changed, Undone, undo, unremember};
pub(crate) use write::original;

/// One root of a session: what changed, where it goes, what was there.
pub struct Target<'t> {
    /// Its number in the session.
    pub number: usize,
    /// The host's directory.
    pub host: &'t HostTree,
    /// The layer.
    pub layer: &'t dyn Layer,
    /// The host at the start of the session.
    pub record: &'t dyn Origins,
    /// Bytes that are free on the host's filesystem.
    pub free: u64,
}

/// Record of a session's base, to be written.
pub trait Remember {
    /// From now on this is what the layer was made from.
    fn set(
        &mut self,
        path: &RelPath,
        origin: &Origin,
        ancestor: Option<&[u8]>,
    ) -> Result<(), LayerError>;
}

/// Saves what a session knows of its base, at the point of an apply or an undo where a kill right
/// before or right after it loses nothing.
pub type Keep<'k> = &'k mut dyn FnMut(&Journal, Base) -> Result<(), ApplyError>;

/// The base that a session is told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The host with the journal's steps done: [`remember`].
    New,
    /// The host before them: [`unremember`].
    Old,
}

/// Failure to apply changes.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// They cannot be told.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The layer cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The host's tree refused.
    #[error("cannot change `{}`", path.display())]
    Host {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// Another process writes there at this moment.
    #[error("`{}` changed at this moment", path.display())]
    Raced {
        /// The path.
        path: PathBuf,
    },
    /// The layer is no longer what was planned with.
    #[error("`{}` in the layer is not what was shown any more", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A step failed, and the steps before it were taken back.
    #[error("nothing was applied")]
    TakenBack {
        /// First failure.
        source: Box<ApplyError>,
    },
    /// A step failed, and then taking back failed too.
    #[error("the apply stopped half-way, and could not be taken back: {second}")]
    HalfWay {
        /// First failure.
        source: Box<ApplyError>,
        /// Failure to revert.
        second: Box<ApplyError>,
    },
    /// The journal cannot be kept.
    #[error("cannot keep the journal in `{}`", path.display())]
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
    /// The journal makes no sense.
    #[error("the journal `{}` is damaged", path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// Reason.
        source: serde_json::Error,
    },
    /// There is not enough room.
    #[error("{needed} bytes are needed in `{}`, {free} are free", place.display())]
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
            Self::Raced { .. } | Self::TakenBack { .. } => {
                Some("look at `agent-sandbox diff`, then try again".into())
            }
            Self::Changed { .. } => Some("stop what runs in the session, then try again".into()),
            Self::HalfWay { .. } | Self::Base { .. } => Some(
                "`agent-sandbox apply --resume` completes it, `agent-sandbox undo` takes it back"
                    .into(),
            ),
            Self::NoSpace { .. } => Some("make room, or apply fewer paths".into()),
            _ => None,
        }
    }
}
