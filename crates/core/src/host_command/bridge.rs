//! What a session needs for its bridge: files, mounts, a process, a key. Nothing at all where host commands are off.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::list::{HostList, HostMount};
use super::route::{BRIDGE_DIR, ROUTES, Routes, SHIMS, Ssh, Way};
use super::tool::{Warning, warnings};
use crate::config::file::{AgentInit, HostCommands, HostKey, Transport};
use crate::host::RUNTIME_BINARY;

/// Where the session's folder holds what the container sees.
const SEEN: &str = "bridge";
/// Where it holds what the container never sees.
const UNSEEN: &str = "broker";
/// Where the relay listens, inside.
const RELAY: &str = "/run/agent-sandbox/relay";

/// What a session needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// What is routed.
    pub routes: Routes,
    /// What the broker enforces, besides the deployment's list; for the socket only.
    pub list: Option<HostList>,
    /// Folders of the session's, as the container sees them.
    pub mounts: Vec<BridgeMount>,
    /// What comes first in the container's `PATH`.
    pub path: PathBuf,
    /// The process to start on the host: what follows this binary's name, paths below the session's folder.
    pub broker: Option<Vec<OsString>>,
    /// The process to start inside, under a user of its own: what follows this binary's name.
    pub relay: Option<Vec<OsString>>,
    /// The key.
    pub key: Option<BridgeKey>,
    /// A name that must lead to the host's gateway.
    pub gateway: Option<String>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// A folder of the session's, as the container sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeMount {
    /// Below the session's folder.
    pub source: PathBuf,
    /// Inside. Always read-only.
    pub target: PathBuf,
}

/// The key of a session that uses SSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeKey {
    /// The stored secret that holds it; a key of the session's own when there is none.
    pub secret: Option<String>,
    /// Where it is mounted.
    pub target: PathBuf,
    /// Whether the agent can read it: only a relay keeps it from the agent.
    pub seen_by_agent: bool,
}

/// A wish that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BridgeError {
    /// There is no network to use SSH over.
    #[error("`host_commands.transport = \"ssh\"` needs a network, and this session has none")]
    NoNetwork,
    /// SSH needs to know whom to log in as.
    #[error("`host_commands.transport = \"ssh\"` needs `user`")]
    NoUser,
    /// Nothing is allowed.
    #[error("`host_commands` is on, and allows nothing")]
    Nothing,
    /// A path cannot be the name of a shim.
    #[error("`{0}` cannot be sent to the host by name")]
    Path(String),
}

impl BridgeError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::NoNetwork => {
                "leave `transport` out: the Unix socket works without a network; or set `network = \"bridge\"`".into()
            }
            Self::NoUser => "name the user that `agent-sandbox host-command setup` made".into(),
            Self::Nothing => "list commands in `host_commands.allowed`, or take `enabled` away".into(),
            Self::Path(_) => "list the program's name; the host looks for it in the folders of its own list".into(),
        }
    }
}

impl Bridge {
    /// Decides what a session needs. `None`: host commands are off, and there is nothing to do.
    pub fn of(
        config: &HostCommands,
        has_network: bool,
        init: AgentInit,
        mounts: &[HostMount],
    ) -> Result<Option<Self>, BridgeError> {
        if !config.enabled {
            return Ok(None);
        }
        if config.allowed.is_empty() {
            return Err(BridgeError::Nothing);
        }
        if let Some(entry) = config.allowed.iter().find(|entry| entry.words[0].contains('/')) {
            return Err(BridgeError::Path(entry.text()));
        }
        let commands = config.allowed.iter().map(|entry| entry.words.clone()).collect();
        match config.transport {
            Transport::Unix => Ok(Some(Self::by_socket(config, commands, mounts))),
            Transport::Ssh if !has_network => Err(BridgeError::NoNetwork),
            Transport::Ssh => Self::by_ssh(config, commands, init).map(Some),
        }
    }

    fn new(config: &HostCommands, way: Way, commands: Vec<Vec<String>>) -> Self {
        Self {
            routes: Routes { way, commands },
            list: None,
            mounts: vec![BridgeMount { source: SEEN.into(), target: BRIDGE_DIR.into() }],
            path: SHIMS.into(),
            broker: None,
            relay: None,
            key: None,
            gateway: None,
            warnings: warnings(&config.allowed),
        }
    }

    fn by_socket(config: &HostCommands, commands: Vec<Vec<String>>, mounts: &[HostMount]) -> Self {
        let socket = Path::new(BRIDGE_DIR).join("socket");
        let allowed = config.allowed.clone();
        let list = HostList { allowed, mounts: mounts.to_vec(), ..HostList::default() };
        let words = [
            "host-command",
            "serve",
            "--listen",
            "bridge/socket",
            "--session-list",
            "broker/list.json",
        ];
        let words = words.into_iter().chain(["--state", "broker"]).map(OsString::from);
        Self {
            list: Some(list),
            broker: Some(words.collect()),
            ..Self::new(config, Way::Unix { socket }, commands)
        }
    }

    fn by_ssh(
        config: &HostCommands,
        commands: Vec<Vec<String>>,
        init: AgentInit,
    ) -> Result<Self, BridgeError> {
        let user = config.user.clone().ok_or(BridgeError::NoUser)?;
        let host = config.host.clone().unwrap_or_else(|| "host.docker.internal".into());
        let name = config.ssh_key_secret.as_deref().unwrap_or("ssh_key");
        let key = Path::new("/run/secrets").join(name);
        let ssh = Ssh {
            user,
            host: host.clone(),
            port: config.port.unwrap_or(22),
            key: key.clone(),
            known_hosts: Path::new(BRIDGE_DIR).join("known_hosts"),
            accept_new: config.host_key == HostKey::AcceptNew,
        };
        let relayed = init == AgentInit::Supervise;
        let socket = Path::new(RELAY).join("socket");
        let way =
            if relayed { Way::Unix { socket: socket.clone() } } else { Way::Ssh(ssh.clone()) };
        let relay = relayed.then(|| relay_words(&ssh, &socket));
        Ok(Self {
            relay,
            key: Some(BridgeKey {
                secret: config.ssh_key_secret.clone(),
                target: key,
                seen_by_agent: !relayed,
            }),
            gateway: Some(host),
            ..Self::new(config, way, commands)
        })
    }

    /// The names of the shims.
    pub fn names(&self) -> BTreeSet<&str> {
        self.routes.commands.iter().filter_map(|words| words.first().map(String::as_str)).collect()
    }

    /// Writes the session's files. What is there already is replaced.
    pub fn write(&self, session: &Path) -> io::Result<()> {
        let seen = session.join(SEEN);
        make_dir(&seen, 0o755)?;
        let bin = seen.join("bin");
        if bin.try_exists()? {
            fs::remove_dir_all(&bin)?;
        }
        make_dir(&bin, 0o755)?;
        for name in self.names() {
            symlink(RUNTIME_BINARY, bin.join(name))?;
        }
        let routes = Path::new(ROUTES).file_name().unwrap_or_default();
        write_file(&seen.join(routes), &serde_json::to_vec_pretty(&self.routes)?, 0o644)?;
        if let Some(list) = &self.list {
            let unseen = session.join(UNSEEN);
            make_dir(&unseen, 0o700)?;
            write_file(&unseen.join("list.json"), &serde_json::to_vec_pretty(list)?, 0o600)?;
        }
        Ok(())
    }
}

fn relay_words(ssh: &Ssh, socket: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["host-command", "relay", "--listen"].map(OsString::from).to_vec();
    words.push(socket.into());
    words.extend(["--key".into(), ssh.key.clone().into()]);
    words.extend(["--known-hosts".into(), ssh.known_hosts.clone().into()]);
    words.extend(["--port".into(), ssh.port.to_string().into()]);
    if ssh.accept_new {
        words.push("--accept-new".into());
    }
    words.push(format!("{}@{}", ssh.user, ssh.host).into());
    words
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?.write_all(content)?;
    fs::rename(&new, path)
}
