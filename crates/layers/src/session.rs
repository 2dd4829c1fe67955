//! A session: layers over one or more places of the host, on disk, with a name.
//!
//! Everything lies below `DATA/sessions` and `DATA/layers`, with `DATA` the user's data directory
//! for agent-sandbox; nobody else can read it, and no sandbox sees it:
//!
//! ```text
//! sessions/ID/session.json   the record: name, project, engine, roots with their stacks of layers
//! sessions/ID/lock           held by the one who runs in the session or takes its changes over
//! sessions/ID/work/N         overlayfs's own work directory for root N
//! sessions/ID/base/          what the changed files of the base were when they were first changed
//! sessions/ID/dirs/          the directories of the base when the last run began
//! sessions/ID/applied/       one directory for each time that changes were taken over
//! layers/ID/upper            one layer: a directory written by overlayfs
//! layers/ID/delta.db         one layer: an AgentFS database
//! ```
//!
//! Layers lie beside the sessions because forks share them: a layer below the top never changes
//! again, and goes when no record names it any more.

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
pub use opened::{Session, State};
pub use record::{Engine, LayerId, Record, Root, RootKind, Run, Snapshot};
pub use run::{OverlayMount, Still, wait_until_after};
pub use shift::Shifted;
pub use store::{NewSession, Sessions};

#[cfg(test)]
mod tests;
