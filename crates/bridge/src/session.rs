//! What a session needs for its bridge: files, mounts, a process, a key. Nothing at all where host commands are off.

mod ssh;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{Durability, Mode, Replace};
use sandbox_policy::config::command::PublicKey;
use sandbox_policy::config::file::{AgentInit, HostCommands, Transport};
use sandbox_policy::host::RUNTIME_BINARY;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::list::{HostList, HostMount};
use crate::route::{BRIDGE_DIR, ROUTES, Route, Routes, SHIMS};
use crate::verdict::{Warning, warnings};

pub use ssh::Relay;

/// Where the session's folder holds what the container sees.
const SEEN: &str = "bridge";
/// Where it holds what the container never sees: the broker's state.
pub(crate) const STATE: &str = "broker";
/// The broker's socket, below the session's folder.
pub(crate) const SOCKET: &str = "bridge/socket";
/// The list that the broker enforces, below the session's folder.
pub(crate) const LIST: &str = "broker/list.json";

/// What a session needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// What is routed.
    pub routes: Routes,
    /// List that the session's broker enforces besides the deployment's. `None` by SSH, where there is no broker.
    pub list: Option<HostList>,
    /// Folders of the session's, as the container sees them.
    pub mounts: Vec<BridgeMount>,
    /// What comes first in the container's `PATH`.
    pub path: PathBuf,
    /// The process to start inside, under a user of its own.
    pub relay: Option<Relay>,
    /// The key.
    pub key: Option<BridgeKey>,
    /// The host's own keys, as `known_hosts` has them.
    pub known_hosts: Option<String>,
    /// A name inside, and where the engine is to lead it.
    pub host: Option<(String, &'static str)>,
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
    /// Whom it lets in as.
    pub user: String,
    /// Where it lies, below the session's folder.
    pub source: PathBuf,
    /// Where it is inside. Only a relay keeps it from the agent.
    pub target: PathBuf,
}

/// What is known about the container that a bridge is for.
#[derive(Debug, Clone)]
pub struct Around<'a> {
    /// Its network, in the engine's words.
    pub network: &'a str,
    /// What its first process does.
    pub init: AgentInit,
    /// What it shares with the host.
    pub mounts: &'a [HostMount],
    /// The agent's home.
    pub home: &'a Path,
    /// This machine's own keys.
    pub host_keys: &'a [PublicKey],
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
    /// The host's key is not known.
    #[error("this machine has no SSH host key in `/etc/ssh` that could be pinned")]
    NoHostKey,
    /// A value that would mean something else on its way.
    #[error("`host_commands.{key}` cannot be `{value}`")]
    Word {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// The agent is known to the image alone.
    #[error(
        "a key that the agent cannot read needs a user of its own, and here the image says who there is"
    )]
    NamedUser,
    /// Nothing is allowed.
    #[error("`host_commands` is on, and allows nothing")]
    Nothing,
    /// A path cannot be the name of a shim.
    #[error("`{0}` cannot be sent to the host by name")]
    Path(String),
}

impl Hint for BridgeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoNetwork => {
                "leave `transport` out: the Unix socket works without a network; or set `network = \"bridge\"`".into()
            }
            Self::NoUser => "name the user that `agent-sandbox host-command setup` made".into(),
            Self::NoHostKey => {
                "start sshd once, or write its key: `host_key = \"ssh-ed25519 AAAA…\"`; `\"accept-new\"` believes whoever answers first".into()
            }
            Self::Word { .. } => "use letters, digits, `.`, `_` and `-`".into(),
            Self::NamedUser => "write `agent.user` as a number, or leave it out".into(),
            Self::Nothing => "list commands in `host_commands.allowed`, or take `enabled` away".into(),
            Self::Path(_) => "list the program's name; the host looks for it in the folders of its own list".into(),
        })
    }
}

impl Bridge {
    /// Decides what a session needs. `None`: host commands are off, and there is nothing to do.
    pub fn of(config: &HostCommands, around: &Around<'_>) -> Result<Option<Self>, BridgeError> {
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
            Transport::Unix => Ok(Some(Self::by_socket(config, commands, around.mounts))),
            Transport::Ssh if around.network == "none" => Err(BridgeError::NoNetwork),
            Transport::Ssh => Self::by_ssh(config, commands, around).map(Some),
        }
    }

    fn new(config: &HostCommands, route: Route, commands: Vec<Vec<String>>) -> Self {
        Self {
            routes: Routes { route, commands },
            list: None,
            mounts: vec![BridgeMount { source: SEEN.into(), target: BRIDGE_DIR.into() }],
            path: SHIMS.into(),
            relay: None,
            key: None,
            known_hosts: None,
            host: None,
            warnings: warnings(&config.allowed),
        }
    }

    fn by_socket(config: &HostCommands, commands: Vec<Vec<String>>, mounts: &[HostMount]) -> Self {
        let socket = Path::new(BRIDGE_DIR).join("socket");
        let allowed = config.allowed.clone();
        let list = HostList { allowed, mounts: mounts.to_vec(), ..HostList::default() };
        Self { list: Some(list), ..Self::new(config, Route::Unix { socket }, commands) }
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
            make_dir(&session.join(STATE), 0o700)?;
            write_file(&session.join(LIST), &serde_json::to_vec_pretty(list)?, 0o600)?;
        }
        Ok(())
    }
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let way = Replace { mode: Mode::Masked(mode), ..Replace::private(Durability::Cached) };
    way.write(path, content)
}
