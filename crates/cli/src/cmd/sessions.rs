//! Commands for sessions: start and stop, run commands, list and remove, snapshots and history.

#[cfg(feature = "sessions")]
pub(crate) mod service;
#[cfg(feature = "sessions")]
pub(crate) mod up;
#[cfg(feature = "sessions")]
pub(crate) mod supervise;
#[cfg(feature = "sessions")]
pub(crate) mod exec;
#[cfg(feature = "sessions")]
pub(crate) mod down;
#[cfg(feature = "sessions")]
pub(crate) mod logs;
#[cfg(feature = "sessions")]
pub(crate) mod inspect;
#[cfg(feature = "sessions")]
pub(crate) mod serve;
#[cfg(feature = "sessions")]
pub(crate) mod ps;
#[cfg(feature = "sessions")]
pub(crate) mod rm;
#[cfg(feature = "sessions")]
pub(crate) mod prune;
pub(crate) mod freeze;
pub(crate) mod snapshot;
pub(crate) mod history;

use sandbox_layers::session::{LayerSession, LayerSessions, Selector};
use sandbox_policy::Host;

use super::here;
use crate::args::Flags;
use crate::failed::Failed;

/// Returns the named session, else the latest one of this directory.
pub(crate) fn chosen(
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
) -> Result<(LayerSessions, LayerSession), Failed> {
    let sessions = sandbox_launch::layers::sessions(host)?;
    let directory = here(flags, host);
    let name = name.or(flags.session.as_ref()).cloned();
    let session = sessions.find(&Selector { directory, name })?;
    Ok((sessions, session))
}
