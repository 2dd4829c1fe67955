//! The sessions of this user, as every command opens them.

use sandbox_policy::Host;
use sandbox_sessions::backend;
use sandbox_sessions::session::{Matching, Session};
use sandbox_sessions::{DataDir, Service};

use super::here;
use crate::args::Flags;
use crate::failed::Failed;
use crate::ui::{Stdio, Tone, visible};

/// Opens the record. Where there is none, nothing is made.
pub(crate) fn open(host: &Host) -> Result<Service, Failed> {
    if host.inside {
        let why = std::io::Error::other("inside a sandbox there are no sessions");
        let hint = "type it where the outermost sandbox was started";
        return Err(Failed::new(why, Some(hint.into())));
    }
    let data_dir = DataDir::of(host)?;
    let backends = backend::all(&data_dir, host);
    Ok(Service::look(data_dir, backends)?)
}

/// Opens the record, and makes it where there is none.
pub(crate) fn make(host: &Host) -> Result<Service, Failed> {
    let data_dir = DataDir::of(host)?;
    let backends = backend::all(&data_dir, host);
    Ok(Service::open(data_dir, backends)?)
}

/// Prints what went wrong without keeping anything from being done.
pub(crate) fn warn(service: &Service, io: &mut Stdio<'_>) {
    for warning in service.warnings() {
        io.labelled(Tone::Warning, "warning", &visible(&warning));
    }
}

/// Opens the record if there is one.
pub(crate) fn open_used(host: &Host) -> Result<Option<Service>, Failed> {
    if host.inside || !DataDir::of(host)?.is_used() {
        return Ok(None);
    }
    open(host).map(Some)
}

/// The session that is meant: the named one, else the one of this directory.
pub(crate) fn chosen(
    service: &Service,
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
) -> Result<Session, Failed> {
    match name.or(flags.session.as_ref()) {
        Some(word) => Ok(service.find(word, Matching::Prefix)?),
        None => Ok(service.here(&here(flags, host))?),
    }
}
