//! Authorization of a session's SSH key on the host. The line of `authorized_keys` is added if the caller can write the
//! file that the deployment uses. Otherwise it is shown to the user.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sandbox_bridge::session::BridgeKey;
use sandbox_bridge::ssh::{authorized, key};
use sandbox_proxy::audit::rfc3339;
use sandbox_proxy::credential::Secret;

use super::plan::Container;
use super::{Docker, files};
use crate::backend::{Authorized, BackendError, Recorder};
use crate::error::ControlError;
use crate::session::Session;
use crate::store::ThingKind;

const FILE: &str = "authorized.json";
/// Lifetime of a key that is not removed earlier.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Docker {
    /// Returns the authorization of a session's key, if it has one and its public half is known.
    pub(super) fn read_authorized(&self, session: &Session) -> Option<Authorized> {
        serde_json::from_slice(&fs::read(self.dir(session).join(FILE)).ok()?).ok()
    }

    /// Writes the key, and authorizes it on the host.
    pub(super) fn make_key(
        &self,
        session: &Session,
        plan: &Container,
        wanted: &BridgeKey,
        stored: Option<&Secret>,
        record: &mut Recorder<'_>,
    ) -> Result<(), ControlError> {
        let dir = self.dir(session);
        let path = dir.join(&wanted.source);
        let public = record.make(ThingKind::Key, &path.to_string_lossy(), || {
            let (private, public) = pair(session, stored)?;
            let with_relay = plan.bridge.as_ref().is_some_and(|bridge| bridge.relay.is_some());
            files::write_key(&path, private.expose(), plan, with_relay)
                .map_err(|error| BackendError::new("cannot write the SSH key", error))?;
            Ok(public)
        })?;
        let Some(public) = public else { return Ok(()) };
        let mut authorized = self.line(plan, wanted, stored.is_none(), &public)?;
        let place = authorized::place(&wanted.user)
            .filter(|place| authorized.own && authorized::may_write(place));
        if let Some(place) = place {
            record.make(ThingKind::AuthorizedKey, &place.to_string_lossy(), || {
                authorized::add(&place, &authorized.line)
                    .map_err(|error| cannot_change(&place, error))
            })?;
            authorized.place = Some(place);
        }
        let text = serde_json::to_vec(&authorized).unwrap_or_default();
        fs::write(dir.join(FILE), text).map_err(|error| {
            BackendError::new("cannot record the key's `authorized_keys` line", error)
        })?;
        Ok(())
    }

    fn line(
        &self,
        plan: &Container,
        wanted: &BridgeKey,
        own: bool,
        public: &str,
    ) -> Result<Authorized, BackendError> {
        let from = self.sources(&plan.network)?;
        // A date without time is the same in all time zones, give or take a day.
        let ends = rfc3339(SystemTime::now() + LIFE);
        let ends: String = ends.chars().take(10).filter(char::is_ascii_digit).collect();
        let ends = Some(ends.as_str()).filter(|_| own);
        let line = authorized::line(public, from.as_deref(), ends)
            .map_err(|error| BackendError::plain(error.to_string()))?;
        Ok(Authorized { user: wanted.user.clone(), line, own, place: None })
    }

    /// Returns the source addresses of containers in this network, as the host sees them. They are unknown for a rootless
    /// engine.
    fn sources(&self, network: &str) -> Result<Option<String>, BackendError> {
        let engine = self.engine()?;
        if engine.facts(false)?.rootless {
            return Ok(None);
        }
        if network == "host" {
            return Ok(Some("127.0.0.1,::1".into()));
        }
        let found = engine
            .find_optional("inspect the network", engine.docker.inspect_network(network, None))?;
        let ranges = found.and_then(|found| found.ipam?.config).unwrap_or_default();
        let ranges: Vec<String> = ranges.into_iter().filter_map(|range| range.subnet).collect();
        Ok(Some(ranges.join(",")).filter(|ranges| !ranges.is_empty()))
    }
}

/// Returns the private key, and its public half if that is known.
fn pair(
    session: &Session,
    stored: Option<&Secret>,
) -> Result<(Secret, Option<String>), BackendError> {
    let comment = comment(session);
    let Some(stored) = stored else {
        let (mut private, public) = key::make(&comment)
            .map_err(|error| BackendError::new("cannot generate an SSH key", error))?;
        return Ok((Secret::from(std::mem::take(&mut *private)), Some(public)));
    };
    let public = key::public_half(stored.expose()).map_err(|error| {
        BackendError::new("the stored secret is not a usable SSH key", error)
            .hint("store one without a passphrase: ssh-keygen -t ed25519 -N '' -f KEY; agent-sandbox secret set NAME < KEY")
    })?;
    // ssh(1) needs the final newline, which may be missing in the stored secret.
    let text = format!("{}\n", stored.expose().trim_end());
    Ok((Secret::from(text), public.map(|public| format!("{public} {comment}"))))
}

/// Returns the comment that identifies the line.
fn comment(session: &Session) -> String {
    format!("agent-sandbox-{}", session.id)
}

/// Removes the line of a session's key.
pub(super) fn take_out(place: &Path, session: &Session) -> Result<(), BackendError> {
    authorized::remove(place, &comment(session)).map_err(|error| cannot_change(place, error))
}

fn cannot_change(place: &Path, error: io::Error) -> BackendError {
    BackendError::new(format!("cannot change `{}`", place.display()), error)
        .hint("run this as the user that created the session, or as root")
}
