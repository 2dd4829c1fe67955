//! Sessions: named, stored layers over one or more directories or files of the host.
//!
//! All files are below `DATA/sessions` and `DATA/layers`, where `DATA` is the user's data directory for agent-sandbox.
//! No other user can read it, and it is hidden in every sandbox:
//!
//! ```text
//! sessions/ID/session.json   the record: name, project, engine, roots with their stacks of layers
//! sessions/ID/lock           held by a run in the session, and by an apply
//! sessions/ID/work/N         overlayfs's own work directory for root N
//! sessions/ID/base/          changed files of the base in their original state
//! sessions/ID/dirs/          directories of the base at the start of the last run
//! sessions/ID/applied/       one directory for each apply
//! layers/ID/upper            one layer: a directory written by overlayfs
//! layers/ID/delta.db         one layer: an AgentFS database
//! ```
//!
//! Layers are stored beside the sessions because forks share them. A layer below the top never changes again, and is
//! removed when no record names it.

mod text;
mod error;
mod record;
mod lock;
mod disk;
mod layers;
mod dirs;
mod base;
mod opened;
mod find;
mod undone;
mod store;
mod shift;
mod listed;
mod holder;
mod run;
mod agentfs;
mod snapshot;
mod discard;

pub use base::BaseRecord;
pub use error::SessionError;
pub use find::Selector;
pub use holder::{Freeze, Frozen};
pub use lock::Lock;
pub use opened::{LayerSession, RunState};
pub use record::{LayerEngine, LayerId, Root, RootKind, Run, SessionRecord, Snapshot};
pub use run::{FrozenSession, OverlayMount, wait_until_after};
pub use shift::Shifted;
pub use store::{LayerSessions, NewSession};

#[cfg(test)]
mod tests;
