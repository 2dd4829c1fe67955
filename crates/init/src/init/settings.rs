//! Settings of `init`, decided before anything is changed.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_protocol::Hint;
use sandbox_protocol::layout::{DATA, SEARCH_PATH, WORKSPACE};
use sandbox_protocol::value::{self, Cow, Dockerd};
use sandbox_protocol::variable::{
    AGENT_BINARY, AGENT_COMMAND, AGENT_COW, AGENT_DOCKER_SOCKET, AGENT_DOCKERD, AGENT_DOOR,
    AGENT_DOOR_ADDRESS, AGENT_DOOR_PORTS, AGENT_HOME, AGENT_RELAY, AGENT_STOP_GRACE, AGENT_USER,
    AGENT_WORKDIR, SESSION_ID, WORKSPACE_COMMIT, WORKSPACE_PATH,
};
use thiserror::Error;
use zeroize::Zeroizing;

use super::relay::{self, RelaySettings};
use super::rendezvous::RendezvousSettings;
use crate::arguments::{ArgumentsError, CommandLine, command_line};
use crate::boot::{Situation, follow};
use crate::environment::Environment;
use crate::log::shown;
use crate::user::{self, User, UserError};

const USER: &str = "octobot";
const GRACE: Duration = Duration::from_secs(10);

/// All settings.
pub(crate) struct Settings {
    pub(crate) session: String,
    pub(crate) user: User,
    pub(crate) paths: Paths,
    /// True if the home directory exists, so that nothing is set up.
    pub(crate) at_home: bool,
    pub(crate) rendezvous: Option<RendezvousSettings>,
    pub(crate) relay: Option<RelaySettings>,
    pub(crate) workspace: Option<Source>,
    pub(crate) cow: Cow,
    pub(crate) docker: Docker,
    /// True if the session must not start without Docker.
    pub(crate) docker_required: bool,
    pub(crate) agent: Option<CommandLine>,
    pub(crate) workdir: PathBuf,
    pub(crate) grace: Duration,
    /// The environment of the agent.
    pub(crate) environment: Environment,
}

/// Paths, which follow from the user's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) data: PathBuf,
    /// The copy of the image's home, which is the base of the layer.
    pub(crate) base: PathBuf,
    /// The image's home, over which the layer is mounted.
    pub(crate) home: PathBuf,
    /// A directory for drafts, which is removed at each start.
    pub(crate) staging: PathBuf,
    pub(crate) link: PathBuf,
}

/// A repository to clone.
pub(crate) struct Source {
    /// The URL or path. It may contain a password.
    pub(crate) path: Zeroizing<Vec<u8>>,
    pub(crate) commit: Option<String>,
}

/// Use of Docker beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Docker {
    /// Never started.
    Off,
    /// Started if installed, for all users in the container.
    AllUsers,
    /// Started if installed, for the agent's group.
    Group,
}

/// Failure to decide the settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error("{SESSION_ID} is not set")]
    NoSession,
    #[error("invalid {SESSION_ID}")]
    BadSession,
    #[error(transparent)]
    User(#[from] UserError),
    #[error("the agent's user is root")]
    Root,
    #[error("the container runs as uid {uid}, not as root or as `{wanted}`")]
    OtherUser { uid: u32, wanted: String },
    #[error("invalid value `{value}` for {name}")]
    Value { name: &'static str, value: String, known: &'static str },
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
}

impl Hint for SettingsError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSession => format!("set {SESSION_ID} to the name of the session"),
            Self::BadSession => {
                "use up to 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
                    .into()
            }
            Self::User(_) | Self::Root => format!("set {AGENT_USER} to a user of the image"),
            Self::OtherUser { .. } => {
                format!("start the container as root, or change {AGENT_USER}")
            }
            Self::Value { known, .. } => format!("use {known}"),
            Self::Arguments(error) => return error.hint(),
        })
    }
}

/// Decides all settings before the first change.
pub(crate) fn decide(situation: &Situation<'_>) -> Result<Settings, SettingsError> {
    let environment = situation.environment;
    let session = session(environment)?;
    let home = environment.word(AGENT_HOME).map(PathBuf::from);
    let user = user(situation, home.is_some())?;
    let cow = cow(environment)?;
    let named = environment.word(AGENT_BINARY).or_else(|| environment.word(AGENT_COMMAND));
    let agent = command_line(environment, named, situation.words)?;
    let mut paths = Paths::of(&user, cow);
    let at_home = home.is_some();
    paths.home = home.unwrap_or(paths.home);
    let workdir = environment.word(AGENT_WORKDIR).map(PathBuf::from);
    Ok(Settings {
        session,
        workspace: source(environment),
        rendezvous: rendezvous(environment)?,
        relay: relay(environment)?,
        at_home,
        docker: docker(environment)?,
        docker_required: environment.set(AGENT_DOCKERD).and_then(Dockerd::of)
            == Some(Dockerd::Required),
        grace: grace(environment)?,
        environment: agents(situation, &user, &paths),
        workdir: workdir.unwrap_or_else(|| paths.home.join("workspace")),
        user,
        paths,
        cow,
        agent,
    })
}

fn session(environment: &Environment) -> Result<String, SettingsError> {
    let value = environment.set(SESSION_ID).ok_or(SettingsError::NoSession)?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let proper = value.len() <= 128 && value[0].is_ascii_alphanumeric() && value.iter().all(plain);
    let text = std::str::from_utf8(value).ok().filter(|_| proper);
    text.map(str::to_owned).ok_or(SettingsError::BadSession)
}

/// Returns the user. It must have a name, which is part of the paths, unless its home exists already.
fn user(situation: &Situation<'_>, at_home: bool) -> Result<User, SettingsError> {
    let wanted = situation.environment.word(AGENT_USER).unwrap_or_else(|| USER.into());
    let wanted = wanted.to_string_lossy();
    let user = user::find(situation.passwd, &wanted)?;
    let name = user.name.as_ref().map(|name| name.as_bytes());
    let unfit = |name: &[u8]| name.contains(&b'/') || name.starts_with(b".");
    if name.map_or(!at_home, unfit) {
        return Err(UserError::Unknown(wanted.into_owned()).into());
    }
    if situation.init_uid.is_some() {
        return Ok(user);
    }
    if user.uid == 0 {
        return Err(SettingsError::Root);
    }
    if situation.uid != 0 && situation.uid != user.uid {
        return Err(SettingsError::OtherUser { uid: situation.uid, wanted: shown(&*wanted) });
    }
    Ok(user)
}

impl Paths {
    fn of(user: &User, cow: Cow) -> Self {
        let name = user.name.clone().unwrap_or_default();
        let data = PathBuf::from(DATA);
        let base = data.join(&name);
        let mut staging = OsString::from(".");
        staging.push(&name);
        staging.push(".staging");
        let home = if cow == Cow::None { base.clone() } else { PathBuf::from("/home").join(&name) };
        Self { staging: data.join(staging), base, home, link: WORKSPACE.into(), data }
    }
}

fn source(environment: &Environment) -> Option<Source> {
    let path = Zeroizing::new(environment.set(WORKSPACE_PATH)?.to_vec());
    let commit = environment.set(WORKSPACE_COMMIT);
    Some(Source { path, commit: commit.map(|commit| String::from_utf8_lossy(commit).into_owned()) })
}

fn wrong(environment: &Environment, name: &'static str, known: &'static str) -> SettingsError {
    let value = environment.set(name).map(String::from_utf8_lossy).unwrap_or_default();
    SettingsError::Value { name, value: shown(&*value), known }
}

fn cow(environment: &Environment) -> Result<Cow, SettingsError> {
    let Some(word) = environment.set(AGENT_COW) else { return Ok(Cow::Agentfs) };
    Cow::of(word).ok_or_else(|| wrong(environment, AGENT_COW, "`agentfs`, `overlay` or `none`"))
}

fn rendezvous(environment: &Environment) -> Result<Option<RendezvousSettings>, SettingsError> {
    let Some(path) = environment.word(AGENT_DOOR) else { return Ok(None) };
    let text = environment.set(AGENT_DOOR_PORTS).map(String::from_utf8_lossy).unwrap_or_default();
    let ports = value::ports(&text);
    let ports = ports.ok_or_else(|| wrong(environment, AGENT_DOOR_PORTS, "`tcp:PORT,udp:PORT`"))?;
    let address = match environment.set(AGENT_DOOR_ADDRESS) {
        None => Some(Ipv4Addr::LOCALHOST),
        Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
    };
    let address = address
        .filter(Ipv4Addr::is_loopback)
        .ok_or_else(|| wrong(environment, AGENT_DOOR_ADDRESS, "a loopback address"))?;
    Ok(Some(RendezvousSettings { path: path.into(), address, ports }))
}

fn relay(environment: &Environment) -> Result<Option<RelaySettings>, SettingsError> {
    let Some(text) = environment.set(AGENT_RELAY) else { return Ok(None) };
    let known = "`[USER, KEY, PLACE, SOCKET, [PROGRAM, WORD, …]]`";
    relay::wanted(text).map(Some).ok_or_else(|| wrong(environment, AGENT_RELAY, known))
}

fn docker(environment: &Environment) -> Result<Docker, SettingsError> {
    let socket = match environment.set(AGENT_DOCKER_SOCKET) {
        None | Some(b"all") => Docker::AllUsers,
        Some(b"group") => Docker::Group,
        Some(_) => return Err(wrong(environment, AGENT_DOCKER_SOCKET, "`all` or `group`")),
    };
    match environment.set(AGENT_DOCKERD).map(Dockerd::of) {
        None | Some(Some(Dockerd::Auto | Dockerd::Required)) => Ok(socket),
        Some(Some(Dockerd::Off)) => Ok(Docker::Off),
        Some(None) => Err(wrong(environment, AGENT_DOCKERD, "`auto`, `required` or `off`")),
    }
}

fn grace(environment: &Environment) -> Result<Duration, SettingsError> {
    let Some(value) = environment.set(AGENT_STOP_GRACE) else { return Ok(GRACE) };
    let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
    let known = "a number of seconds";
    let seconds = seconds.ok_or_else(|| wrong(environment, AGENT_STOP_GRACE, known))?;
    Ok(Duration::from_secs(seconds.into()))
}

/// Returns the agent's environment. Its variables are always those of its user, because its home is mounted.
fn agents(situation: &Situation<'_>, user: &User, paths: &Paths) -> Environment {
    let mut environment = situation.environment.stripped();
    let number = OsString::from(user.uid.to_string());
    let name = user.name.clone().unwrap_or(number);
    environment.put("HOME", paths.home.as_os_str().as_bytes());
    environment.put("USER", name.as_bytes());
    environment.put("LOGNAME", name.as_bytes());
    follow(&mut environment, user, &user::numbered(situation.passwd, 0));
    if environment.set("PATH").is_none() {
        environment.put("PATH", SEARCH_PATH.as_bytes());
    }
    environment
}

#[cfg(test)]
mod tests;
