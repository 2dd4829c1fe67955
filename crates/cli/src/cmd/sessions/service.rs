//! The sessions of this user, as every command opens them.

use sandbox_control::backend::Backend;
use sandbox_control::backend::BackendError;
use sandbox_control::backend::bwrap::Bwrap;
use sandbox_control::backend::docker::Docker;
use sandbox_control::session::{Matching, Session};
use sandbox_control::{ControlError, Place, Service};
use sandbox_core::Host;

use super::here;
use crate::args::Flags;
use crate::cmd::credentials;
use crate::run::Failed;

impl From<ControlError> for Failed {
    fn from(error: ControlError) -> Self {
        let (hint, typing) = (error.hint(), error.is_typing());
        let mut failed = Self::new(error, hint);
        if typing {
            failed.code = 2;
        }
        failed
    }
}

/// Opens the record; where there is none it is made.
pub(crate) fn open(host: &Host) -> Result<Service, Failed> {
    if host.inside {
        let why = std::io::Error::other("inside a sandbox there are no sessions");
        let hint = "type it where the outermost sandbox was started";
        return Err(Failed::new(why, Some(hint.into())));
    }
    with(host, docker(host)?)
}

/// The same, with containers made by somebody who has planned one already.
pub(crate) fn with(host: &Host, docker: Docker) -> Result<Service, Failed> {
    let place = Place::of(host)?;
    let backends = beside(&place, host, docker);
    Ok(Service::open(place, backends)?)
}

/// Everybody who can carry sessions out.
pub(crate) fn backends(place: &Place, host: &Host) -> Vec<Box<dyn Backend>> {
    beside(place, host, docker_at(place, host))
}

fn beside(place: &Place, host: &Host, docker: Docker) -> Vec<Box<dyn Backend>> {
    vec![Box::new(Bwrap::new(place.clone(), host.exe.clone())), Box::new(docker)]
}

/// Sessions in containers.
pub(crate) fn docker(host: &Host) -> Result<Docker, Failed> {
    Ok(docker_at(&Place::of(host)?, host))
}

/// The same, with the secrets that they ask for.
fn docker_at(place: &Place, host: &Host) -> Docker {
    let owner = host.clone();
    let secrets = move |config: &_, address| {
        credentials::for_container(config, address, &owner).map_err(|failed| {
            let mut error = BackendError::plain(failed.error.to_string());
            error.source = failed.error.source().map(|source| source.to_string().into());
            error.hint = failed.hint;
            error
        })
    };
    Docker::new(place.clone(), host.clone(), Box::new(secrets))
}

/// Opens the record if there is one.
pub(crate) fn open_used(host: &Host) -> Result<Option<Service>, Failed> {
    if host.inside || !Place::of(host)?.is_used() {
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
