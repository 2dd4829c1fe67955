//! Access to the sessions of this user.

use sandbox_policy::Host;
use sandbox_sessions::backend;
use sandbox_sessions::session::{Matching, Session};
use sandbox_sessions::{ControlError, DataDir, Service};

use super::here;
use crate::args::Flags;
use crate::failed::Failed;
use crate::ui::{Stdio, Tone, visible};

/// Opens the database. Creates nothing if it does not exist.
pub(crate) fn open(host: &Host) -> Result<Service, Failed> {
    if host.inside {
        let why = std::io::Error::other("sessions are not available inside a sandbox");
        let hint = "run this command on the host";
        return Err(Failed::new(why, Some(hint.into())));
    }
    let data_dir = DataDir::of(host)?;
    let backends = backend::all(&data_dir, host);
    Ok(Service::open_existing(data_dir, backends)?)
}

/// Opens the database, and creates it if it does not exist.
pub(crate) fn make(host: &Host) -> Result<Service, Failed> {
    let data_dir = DataDir::of(host)?;
    let backends = backend::all(&data_dir, host);
    Ok(Service::open(data_dir, backends)?)
}

/// Prints warnings about steps that failed without effect on the result.
pub(crate) fn warn(service: &Service, io: &mut Stdio<'_>) {
    for warning in service.warnings() {
        io.labelled(Tone::Warning, "warning", &visible(&warning));
    }
}

/// Opens the database if it exists.
pub(crate) fn open_used(host: &Host) -> Result<Option<Service>, Failed> {
    if host.inside || !DataDir::of(host)?.is_used() {
        return Ok(None);
    }
    open(host).map(Some)
}

/// Returns the named session, else the one of this directory. A session that was never up is an error.
pub(crate) fn chosen(
    service: &Service,
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
) -> Result<Session, Failed> {
    match name.or(flags.session.as_ref()) {
        Some(word) => match service.find(word, Matching::Prefix) {
            Err(ControlError::Unknown(word)) if is_layer(&word, flags, host)? => {
                Err(ControlError::OnlyLayer(word).into())
            }
            found => Ok(found?),
        },
        None => Ok(service.here(&here(flags, host))?),
    }
}

/// Returns true if single commands used a session of this name here.
fn is_layer(name: &str, flags: &Flags, host: &Host) -> Result<bool, Failed> {
    let layers = sandbox_launch::layers::sessions(host)?;
    Ok(layers.of(&here(flags, host), name)?.is_some())
}
