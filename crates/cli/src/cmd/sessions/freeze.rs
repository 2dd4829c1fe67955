//! Suspends the container that uses a layer.

use std::io;

use sandbox_layers::session::Frozen;
use sandbox_policy::Host;
#[cfg(feature = "sessions")]
use {super::service, sandbox_sessions::session::Matching};

/// Returns a function that suspends the container of a session.
#[cfg(feature = "sessions")]
pub(crate) fn freeze(host: &Host) -> impl Fn(&str) -> io::Result<Frozen> + '_ {
    move |holder| {
        let found = service::open(host).and_then(|service| {
            let session = service.find(holder, Matching::Name)?;
            Ok(service.pause(&session)?)
        });
        found.map_err(|failed| {
            let hint = failed.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            io::Error::other(format!("{}{hint}", failed.error))
        })
    }
}

/// Returns a function that fails. Without the feature `sessions`, no session can have the layer in use.
#[cfg(not(feature = "sessions"))]
pub(crate) fn freeze(_: &Host) -> impl Fn(&str) -> io::Result<Frozen> {
    |_| Err(io::Error::other("this needs the feature `sessions`, which this build leaves out"))
}
