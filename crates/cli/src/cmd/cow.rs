//! The sessions that keep changes apart, as every command opens them.

use std::io;

use sandbox_core::Host;
pub(crate) use sandbox_launch::layers::sessions;
use sandbox_layers::session::Frozen;
#[cfg(feature = "sessions")]
use {super::sessions::service, sandbox_sessions::session::Matching};

/// Holds the container of a session still: the one that keeps the layer in use.
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

/// Fails, because nothing but a session that stays up keeps a layer in use.
#[cfg(not(feature = "sessions"))]
pub(crate) fn freeze(_: &Host) -> impl Fn(&str) -> io::Result<Frozen> {
    |_| Err(io::Error::other("this takes the feature `sessions`, which this build leaves out"))
}
