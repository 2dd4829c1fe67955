//! The sessions that keep changes apart, as every command opens them.

use std::io;

use sandbox_core::Host;
use sandbox_launch::layers::LayersError;
pub(crate) use sandbox_launch::layers::sessions;
use sandbox_layers::session::{Frozen, SessionError};
use sandbox_sessions::session::Matching;

use super::sessions::service;
use crate::failed::Failed;

impl From<LayersError> for Failed {
    fn from(error: LayersError) -> Self {
        let hint = error.hint();
        Self::new(error, hint)
    }
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        let hint = error.hint();
        Self::new(error, hint)
    }
}

/// Holds the container of a session still: the one that keeps the layer in use.
pub(crate) fn freeze(host: &Host) -> impl Fn(&str) -> io::Result<Frozen> + '_ {
    move |holder| {
        let found = service::open(host).and_then(|service| {
            let session = service.find(holder, Matching::Name)?;
            Ok(service.hold(&session)?)
        });
        found.map_err(|failed| {
            let hint = failed.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            io::Error::other(format!("{}{hint}", failed.error))
        })
    }
}
