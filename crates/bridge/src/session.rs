//! Plan of a session's bridge: files, mounts, a process and a key. Empty if host commands are off.

mod ssh;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{Durability, Mode, Replace};
use sandbox_policy::config::command::PublicKey;
use sandbox_policy::config::file::{AgentInit, HostCommands, StoredName, Transport};
use sandbox_policy::host::RUNTIME_BINARY;
use sandbox_protocol::Hint;
use sandbox_protocol::layout::bridge;
use thiserror::Error;

use crate::list::{HostList, HostMount};
use crate::route::{Route, Routes};
use crate::verdict::{Warning, warnings};

pub use ssh::Relay;

/// Subdirectory of the session's folder that the container sees.
const SEEN: &str = "bridge";
/// Subdirectory that the container never sees: the broker's state.
pub(crate) const STATE: &str = "broker";
/// Broker's socket, below the session's folder.
pub(crate) const SOCKET: &str = "bridge/socket";
/// List that the broker enforces, below the session's folder.
pub(crate) const LIST: &str = "broker/list.json";

/// Bridge of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// Routed commands.
    pub routes: Routes,
    /// List that the session's broker enforces in addition to the deployment's. `None` over SSH, which uses no broker.
    pub list: Option<HostList>,
    /// Folders of the session to mount in the container.
    pub mounts: Vec<BridgeMount>,
    /// First directory of the container's `PATH`.
    pub path: PathBuf,
    /// Process to start inside under a separate user.
    pub relay: Option<Relay>,
    /// SSH key.
    pub key: Option<BridgeKey>,
    /// Host keys in `known_hosts` format.
    pub known_hosts: Option<String>,
    /// Host name inside, and the address that the engine maps it to.
    pub host: Option<(String, &'static str)>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}

/// Folder of the session that is mounted in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeMount {
    /// Path below the session's folder.
    pub source: PathBuf,
    /// Path inside. Always read-only.
    pub target: PathBuf,
}

/// SSH key of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeKey {
    /// Stored secret that holds the key. Without one, the session gets a new key.
    pub secret: Option<StoredName>,
    /// User that it logs in as.
    pub user: String,
    /// Path below the session's folder.
    pub source: PathBuf,
    /// Path inside. Only a relay hides it from the agent.
    pub target: PathBuf,
}

/// Container that a bridge is for.
#[derive(Debug, Clone)]
pub struct Around<'a> {
    /// Network, as the engine calls it.
    pub network: &'a str,
    /// Role of its first process.
    pub init: AgentInit,
    /// Directories shared with the host.
    pub mounts: &'a [HostMount],
    /// Agent's home.
    pub home: &'a Path,
    /// Host keys of this machine.
    pub host_keys: &'a [PublicKey],
}

/// Configuration that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BridgeError {
    /// SSH transport without a network.
    #[error("`host_commands.transport = \"ssh\"` needs a network, and this session has none")]
    NoNetwork,
    /// SSH transport without a user.
    #[error("`host_commands.transport = \"ssh\"` needs `user`")]
    NoUser,
    /// Host key of this machine is unknown.
    #[error("cannot pin this machine's SSH host key: there is none in `/etc/ssh`")]
    NoHostKey,
    /// Agent's user is known only to the image.
    #[error(
        "a key that the agent cannot read needs a separate user, but `agent.user` is a name that only the image can resolve"
    )]
    NamedUser,
    /// No command is allowed.
    #[error("`host_commands` is enabled but allows no command")]
    Nothing,
    /// Path, which cannot be the name of a shim.
    #[error("cannot route `{0}` to the host: it is a path")]
    Path(String),
}

impl Hint for BridgeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoNetwork => {
                "remove `transport`, because the Unix socket works without a network; or set `network = \"bridge\"`".into()
            }
            Self::NoUser => "set it to the user that `agent-sandbox host-command setup` created".into(),
            Self::NoHostKey => {
                "start sshd once, or set its key: `host_key = \"ssh-ed25519 AAAA…\"`; `\"accept-new\"` trusts the first key that it sees".into()
            }
            Self::NamedUser => "write `agent.user` as a number, or remove it".into(),
            Self::Nothing => "list commands in `host_commands.allowed`, or remove `enabled`".into(),
            Self::Path(_) => "list the program by its name; the host searches the `path` of its list".into(),
        })
    }
}

impl Bridge {
    /// Plans the bridge of a session; `None` if host commands are off.
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
            mounts: vec![BridgeMount { source: SEEN.into(), target: bridge::DIR.into() }],
            path: bridge::SHIMS.into(),
            relay: None,
            key: None,
            known_hosts: None,
            host: None,
            warnings: warnings(&config.allowed),
        }
    }

    fn by_socket(config: &HostCommands, commands: Vec<Vec<String>>, mounts: &[HostMount]) -> Self {
        let socket = Path::new(bridge::DIR).join("socket");
        let allowed = config.allowed.clone();
        let list = HostList { allowed, mounts: mounts.to_vec(), ..HostList::default() };
        Self { list: Some(list), ..Self::new(config, Route::Unix { socket }, commands) }
    }

    /// Returns the names of the shims.
    pub fn names(&self) -> BTreeSet<&str> {
        self.routes.commands.iter().filter_map(|words| words.first().map(String::as_str)).collect()
    }

    /// Writes the session's files and replaces existing ones.
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
        let routes = Path::new(bridge::ROUTES).file_name().unwrap_or_default();
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
