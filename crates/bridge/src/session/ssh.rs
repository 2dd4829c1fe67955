//! Plan of a bridge over SSH: the key, its holder, and the accepted host keys.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use sandbox_policy::config::command::PublicKey;
use sandbox_policy::config::file::{AgentInit, HostCommands, HostKey, SshHost, StoredName};
use sandbox_policy::host::RUNTIME_BINARY;
use sandbox_protocol::layout::bridge;

use super::{Around, Bridge, BridgeError, BridgeKey};
use crate::relay;
use crate::route::{Route, Ssh};

/// Subdirectory of the session's folder that holds keys.
const KEYS: &str = "keys";

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
        let user = config.user.as_ref().ok_or(BridgeError::NoUser)?.as_str().to_owned();
        let is_address = config.host.as_ref().is_some_and(SshHost::is_address);
        let host = config.host.as_ref().map_or("host.docker.internal", SshHost::as_str).to_owned();
        let name = config.ssh_key_secret.as_ref().map_or("ssh_key", StoredName::as_str);
        let relayed = around.init == AgentInit::Supervise;
        let ssh = Ssh {
            user,
            host,
            port: config.port.map_or(22, NonZeroU16::get),
            key: Path::new("/run/secrets").join(name),
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
        let socket = Path::new(bridge::RELAY_DIR).join("socket");
        let options = relay::Options { listen: socket.clone(), ssh: ssh.clone() };
        let mut words = vec![RUNTIME_BINARY.to_owned()];
        words.extend(options.words());
        Self { socket, words }
    }
}

/// Returns the path of `known_hosts`. Keys accepted on first use are stored where the SSH client can write.
fn known_hosts(config: &HostCommands, around: &Around<'_>, relayed: bool) -> PathBuf {
    match (&config.host_key, relayed) {
        (HostKey::AcceptNew, true) => Path::new(bridge::RELAY_DIR).join("known_hosts"),
        (HostKey::AcceptNew, false) => around.home.join(".agent-sandbox-known-hosts"),
        _ => Path::new(bridge::DIR).join("known_hosts"),
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
