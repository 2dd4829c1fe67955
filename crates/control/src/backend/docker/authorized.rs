//! Letting the key of a session in on the host: the line of `authorized_keys`, put there where the deployment says and
//! the caller may, else told to whoever may.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use sandbox_core::backend::docker::Container;
use sandbox_core::host_command::{BridgeKey, HOST_LIST, HostList, authorized_line};
use sandbox_proxy::audit::rfc3339;
use sandbox_proxy::credential::Secret;
use serde::{Deserialize, Serialize};

use super::{Docker, files, key};
use crate::backend::{BackendError, Recorder};
use crate::error::ControlError;
use crate::session::Session;
use crate::store::ThingKind;

const TOLD: &str = "authorized.json";
/// How long a key may be used, if nobody takes it out before.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What lets a session's key in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorized {
    /// The user on the host.
    pub user: String,
    /// The line of `authorized_keys`.
    pub line: String,
    /// Whether the key was made for this session, and ends with it.
    pub own: bool,
    /// The file that it was put into.
    pub place: Option<PathBuf>,
}

impl Docker {
    /// What lets a session's key in, if it has one and its public half is known.
    pub fn authorized(&self, session: &Session) -> Option<Authorized> {
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
        let place = place(&wanted.user).filter(|place| told.own && may_write(place));
        if let Some(place) = place {
            record.make(ThingKind::AuthorizedKey, &place.to_string_lossy(), || {
                change(&place, |text| text.push_str(&told.line))
                    .map_err(|error| cannot_change(&place, error))
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
        let line = authorized_line(public, from.as_deref(), ends).map_err(BackendError::plain)?;
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
        let (private, public) = key::make(&comment)
            .map_err(|error| BackendError::new("cannot make an SSH key", error))?;
        return Ok((private, Some(public)));
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

/// Where the deployment keeps the keys that it lets in.
fn place(user: &str) -> Option<PathBuf> {
    let place = HostList::read(Path::new(HOST_LIST)).ok()?.authorized_keys?;
    Some(place.to_str()?.replace("%u", user).into())
}

/// Whether it is the caller's or root's to write, and nobody else's: what others can swap is not written to.
fn may_write(place: &Path) -> bool {
    let own = rustix::process::geteuid();
    let is_safe = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|about| {
            about.is_dir() && about.mode() & 0o022 == 0 && [0, own.as_raw()].contains(&about.uid())
        })
    };
    let may = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let Some(dir) = place.parent() else { return false };
    if dir.try_exists().unwrap_or(false) {
        return is_safe(dir) && may(dir);
    }
    dir.parent().is_some_and(|above| is_safe(above) && may(above))
}

/// Takes a session's line out again.
pub(super) fn take_out(place: &Path, session: &Session) -> Result<(), BackendError> {
    let mark = format!(" {}", comment(session));
    if !place.try_exists().unwrap_or(true) {
        return Ok(());
    }
    let without = |text: &mut String| {
        let kept = text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(&mark));
        *text = kept.collect();
    };
    change(place, without).map_err(|error| cannot_change(place, error))
}

fn cannot_change(place: &Path, error: io::Error) -> BackendError {
    BackendError::new(format!("cannot change `{}`", place.display()), error)
        .hint("whoever made the session may change it, or root")
}

/// Puts another file in the place of one, with the same owner and mode. One at a time changes it.
fn change(place: &Path, change: impl FnOnce(&mut String)) -> io::Result<()> {
    let dir = place.parent().unwrap_or(Path::new("/"));
    if !dir.try_exists()? {
        DirBuilder::new().mode(0o755).create(dir)?;
    }
    let alone = File::open(dir)?;
    flock(&alone, FlockOperation::LockExclusive)?;
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut text = String::new();
    let old = match OpenOptions::new().read(true).custom_flags(no_link).open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        old => Some(old?),
    };
    if let Some(mut old) = old.as_ref() {
        old.read_to_string(&mut text)?;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    change(&mut text);
    let draft = place.with_extension("agent-sandbox-new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    new.write_all(text.as_bytes())?;
    let about = old.map(|old| old.metadata()).transpose()?;
    if let Some(about) = &about {
        fchown(&new, Some(about.uid()), Some(about.gid()))?;
    }
    // The user whom sshd lets in must be able to read it.
    let mode = about.map_or(0o644, |about| about.mode() & 0o777);
    new.set_permissions(Permissions::from_mode(mode))?;
    new.sync_all()?;
    fs::rename(&draft, place)
}
