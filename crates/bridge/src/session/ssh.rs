//! Plan of a bridge over SSH: the key, its holder, and the accepted host keys.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sandbox_policy::config::command::PublicKey;
use sandbox_policy::config::file::{AgentInit, HostCommands, HostKey};
use sandbox_policy::host::RUNTIME_BINARY;

use super::{Around, Bridge, BridgeError, BridgeKey};
use crate::relay;
use crate::route::{BRIDGE_DIR, Route, Ssh};

/// Subdirectory of the session's folder that holds keys.
const KEYS: &str = "keys";
/// Directory of the relay's socket inside.
const RELAY_DIR: &str = "/run/agent-sandbox/relay";

/// Process inside that holds the key, so that the agent cannot read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Socket that it listens on.
    pub socket: PathBuf,
    /// Its program and arguments.
    pub words: Vec<String>,
}

impl Bridge {
    pub(super) fn by_ssh(
        config: &HostCommands,
        commands: Vec<Vec<String>>,
        around: &Around<'_>,
    ) -> Result<Self, BridgeError> {
        let user = word("user", config.user.as_ref().ok_or(BridgeError::NoUser)?)?;
        let host = config.host.clone().unwrap_or_else(|| "host.docker.internal".into());
        let is_address = host.parse::<IpAddr>().is_ok();
        let host = if is_address { host } else { word("host", &host)? };
        let name = word("ssh_key_secret", config.ssh_key_secret.as_deref().unwrap_or("ssh_key"))?;
        let relayed = around.init == AgentInit::Supervise;
        let ssh = Ssh {
            user,
            host,
            port: config.port.unwrap_or(22),
            key: Path::new("/run/secrets").join(&name),
            known_hosts: known_hosts(config, around, relayed),
            accept_new: config.host_key == HostKey::AcceptNew,
        };
        let relay = relayed.then(|| Relay::of(&ssh));
        let route = match &relay {
            Some(relay) => Route::Unix { socket: relay.socket.clone() },
            None => Route::Ssh(ssh.clone()),
        };
        // With host networking, the loopback address reaches the host directly.
        let lead = if around.network == "host" { "127.0.0.1" } else { "host-gateway" };
        Ok(Self {
            relay,
            known_hosts: believed(&config.host_key, &ssh, around.host_keys)?,
            host: (!is_address).then(|| (ssh.host.clone(), lead)),
            key: Some(BridgeKey {
                secret: config.ssh_key_secret.clone(),
                user: ssh.user,
                source: Path::new(KEYS).join(name),
                target: ssh.key,
            }),
            ..Self::new(config, route, commands)
        })
    }
}

impl Relay {
    fn of(ssh: &Ssh) -> Self {
        let socket = Path::new(RELAY_DIR).join("socket");
        let options = relay::Options { listen: socket.clone(), ssh: ssh.clone() };
        let mut words = vec![RUNTIME_BINARY.to_owned()];
        words.extend(options.words());
        Self { socket, words }
    }
}

/// Returns the path of `known_hosts`. Keys accepted on first use are stored where the SSH client can write.
fn known_hosts(config: &HostCommands, around: &Around<'_>, relayed: bool) -> PathBuf {
    match (&config.host_key, relayed) {
        (HostKey::AcceptNew, true) => Path::new(RELAY_DIR).join("known_hosts"),
        (HostKey::AcceptNew, false) => around.home.join(".agent-sandbox-known-hosts"),
        _ => Path::new(BRIDGE_DIR).join("known_hosts"),
    }
}

/// Returns the accepted host keys.
fn believed(
    host_key: &HostKey,
    ssh: &Ssh,
    own: &[PublicKey],
) -> Result<Option<String>, BridgeError> {
    let lines = |keys: &[PublicKey]| {
        keys.iter().map(|key| key.known_host(&ssh.host, ssh.port)).collect::<String>()
    };
    match host_key {
        HostKey::AcceptNew => Ok(None),
        HostKey::Key(key) => Ok(Some(lines(std::slice::from_ref(key)))),
        HostKey::Pinned if own.is_empty() => Err(BridgeError::NoHostKey),
        HostKey::Pinned => Ok(Some(lines(own))),
    }
}

/// Checks that a value reads the same in a path, in `known_hosts` and as an argument.
fn word(key: &'static str, value: &str) -> Result<String, BridgeError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = value.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && value.bytes().all(plain) {
        return Ok(value.to_owned());
    }
    Err(BridgeError::Word { key, value: value.to_owned() })
}
