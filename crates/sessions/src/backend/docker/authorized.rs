//! Letting the key of a session in on the host: the line of `authorized_keys`, put there where the deployment says and
//! the caller may, else told to whoever may.

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

const TOLD: &str = "authorized.json";
/// How long a key may be used, if nobody takes it out before.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Docker {
    /// What lets a session's key in, if it has one and its public half is known.
    pub(super) fn read_authorized(&self, session: &Session) -> Option<Authorized> {
        serde_json::from_slice(&fs::read(self.dir(session).join(TOLD)).ok()?).ok()
    }

    /// The key in its place, and the way in for it.
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
        let mut told = self.tell(plan, wanted, stored.is_none(), &public)?;
        let place = authorized::place(&wanted.user)
            .filter(|place| told.own && authorized::may_write(place));
        if let Some(place) = place {
            record.make(ThingKind::AuthorizedKey, &place.to_string_lossy(), || {
                authorized::add(&place, &told.line).map_err(|error| cannot_change(&place, error))
            })?;
            told.place = Some(place);
        }
        let text = serde_json::to_vec(&told).unwrap_or_default();
        fs::write(dir.join(TOLD), text)
            .map_err(|error| BackendError::new("cannot write down the line of the key", error))?;
        Ok(())
    }

    fn tell(
        &self,
        plan: &Container,
        wanted: &BridgeKey,
        own: bool,
        public: &str,
    ) -> Result<Authorized, BackendError> {
        let from = self.sources(&plan.network)?;
        // Whole days, which are the same in every zone but for one.
        let ends = rfc3339(SystemTime::now() + LIFE);
        let ends: String = ends.chars().take(10).filter(char::is_ascii_digit).collect();
        let ends = Some(ends.as_str()).filter(|_| own);
        let line = authorized::line(public, from.as_deref(), ends)
            .map_err(|error| BackendError::plain(error.to_string()))?;
        Ok(Authorized { user: wanted.user.clone(), line, own, place: None })
    }

    /// The addresses that a container of this network has on its host. Those of a rootless engine are not known.
    fn sources(&self, network: &str) -> Result<Option<String>, BackendError> {
        let engine = self.engine()?;
        if engine.facts(false)?.rootless {
            return Ok(None);
        }
        if network == "host" {
            return Ok(Some("127.0.0.1,::1".into()));
        }
        let found =
            engine.ask_for("look at the network", engine.docker.inspect_network(network, None))?;
        let ranges = found.and_then(|found| found.ipam?.config).unwrap_or_default();
        let ranges: Vec<String> = ranges.into_iter().filter_map(|range| range.subnet).collect();
        Ok(Some(ranges.join(",")).filter(|ranges| !ranges.is_empty()))
    }
}

/// The private key, and its public half where that is known.
fn pair(
    session: &Session,
    stored: Option<&Secret>,
) -> Result<(Secret, Option<String>), BackendError> {
    let comment = comment(session);
    let Some(stored) = stored else {
        let (mut private, public) = key::make(&comment)
            .map_err(|error| BackendError::new("cannot make an SSH key", error))?;
        return Ok((Secret::from(std::mem::take(&mut *private)), Some(public)));
    };
    let public = key::public_half(stored.expose()).map_err(|error| {
        BackendError::new("the stored secret is no SSH key for host commands", error)
            .hint("store one without a passphrase: ssh-keygen -t ed25519 -N '' -f KEY; agent-sandbox secret set NAME < KEY")
    })?;
    // An SSH client wants the newline that whoever stored it may have lost.
    let text = format!("{}\n", stored.expose().trim_end());
    Ok((Secret::from(text), public.map(|public| format!("{public} {comment}"))))
}

/// By what a line is known again.
fn comment(session: &Session) -> String {
    format!("agent-sandbox-{}", session.id)
}

/// Takes a session's line out again.
pub(super) fn take_out(place: &Path, session: &Session) -> Result<(), BackendError> {
    authorized::remove(place, &comment(session)).map_err(|error| cannot_change(place, error))
}

fn cannot_change(place: &Path, error: io::Error) -> BackendError {
    BackendError::new(format!("cannot change `{}`", place.display()), error)
        .hint("whoever made the session may change it, or root")
}
