//! What a session needs for its bridge: files, mounts, a process, a key. Nothing at all where host commands are off.

mod ssh;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::key::PublicKey;
use super::list::{HostList, HostMount};
use super::route::{BRIDGE_DIR, ROUTES, Routes, SHIMS, Way};
use super::tool::{Warning, warnings};
use crate::config::file::{AgentInit, HostCommands, Transport};
use crate::host::RUNTIME_BINARY;

pub use ssh::Relay;

/// Where the session's folder holds what the container sees.
const SEEN: &str = "bridge";
/// Where it holds what the container never sees.
const UNSEEN: &str = "broker";

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

impl BridgeError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
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
        }
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

    fn new(config: &HostCommands, way: Way, commands: Vec<Vec<String>>) -> Self {
        Self {
            routes: Routes { way, commands },
            list: None,
            mounts: vec![BridgeMount { source: SEEN.into(), target: BRIDGE_DIR.into() }],
            path: SHIMS.into(),
            broker: None,
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
