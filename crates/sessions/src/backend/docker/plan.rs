//! Container that a configuration describes: plain data, decided before anything is created. Every permission beyond
//! the minimum is an [`Exception`] with its reason.
//!
//! The minimum: no network, no capabilities, no new privileges, a read-only root, a private `/tmp` and `/run`, resource
//! limits, and no file of the host except what is mounted.

mod error;
mod workspace;
mod users;
mod mounts;
mod layers;
mod agent;
mod rules;
mod bridge;
mod variables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use sandbox_bridge::session::Bridge;
use sandbox_policy::config::{Config, ContainerNetwork, Dockerd, Origin, Sourced};
use sandbox_policy::host::Host;
use sandbox_policy::network::EgressPolicy;
use sandbox_protocol::layout::RUNTIME_DIR;
use serde::Serialize;

pub use agent::{ContainerAgent, Start};
pub use error::ContainerError;
pub use layers::LayeredDir;
pub use mounts::{Bind, Identity, Source};
pub use users::Range;

/// Default image.
pub const IMAGE: &str = "sandbox-image";
/// Default of `resources.pids`.
const PIDS: u32 = 4096;
/// Default of `resources.memory`.
const MEMORY: u64 = 8 << 30;
/// Seconds that the agent has to end, and additional seconds for the container.
const GRACE: u32 = 10;
const AFTER_GRACE: u32 = 20;

/// Paths of the session that the container belongs to.
#[derive(Debug, Clone)]
pub struct SessionPaths<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its directory on the host, which only its owner can enter.
    pub dir: &'a Path,
    /// Static binaries that are mounted into the container: this program and PID 1.
    pub binaries: &'a Binaries,
}

/// Paths of the static binaries on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binaries {
    /// `agent-sandbox`.
    pub sandbox: Option<PathBuf>,
    /// `agent-sandbox-init`; without it, the image must have one.
    pub init: Option<PathBuf>,
}

/// Properties of the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineFacts {
    /// Its socket.
    pub socket: PathBuf,
    /// True when its root is an ordinary user of this machine.
    pub rootless: bool,
    /// True for Podman.
    pub podman: bool,
    /// Available runtimes.
    pub runtimes: Vec<String>,
    /// Mapping of its users to this machine's, if it is rootless.
    pub users: Vec<Range>,
    /// Resources that it cannot limit: `memory`, `pids`, `cpus`.
    pub unlimited: Vec<&'static str>,
}

/// Properties of the image. The image is untrusted, so its settings are not applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Id, which identifies the content.
    pub id: String,
    /// Environment variables that it sets, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Directories that it declares as volumes.
    pub volumes: Vec<PathBuf>,
}

/// Planned container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent property")]
pub struct Container {
    /// Id of the image.
    pub image: String,
    /// User of PID 1.
    pub user: String,
    /// The agent. Commands that enter run as the same user.
    pub agent: ContainerAgent,
    /// Command line of PID 1.
    pub entrypoint: Vec<String>,
    /// True when the agent has a terminal, to which users can attach.
    pub terminal: bool,
    /// Environment variables, except those of secrets, which are not part of a plan.
    pub env: BTreeMap<String, String>,
    /// Environment variables of the image that are removed.
    pub unset: Vec<String>,
    /// Bind mounts, parents first.
    pub mounts: Vec<Bind>,
    /// Directories with a copy-on-write layer.
    pub layers: Vec<LayeredDir>,
    /// tmpfs mounts, with their options.
    pub tmpfs: BTreeMap<PathBuf, String>,
    /// Files to create in the session's directory, which mounts show.
    pub files: Vec<OwnFile>,
    /// Symlinks to create in the session's directory.
    pub links: Vec<OwnLink>,
    /// Directories to create in the session's directory.
    pub dirs: Vec<OwnDir>,
    /// Network.
    pub network: String,
    /// Host names inside and their addresses, as `NAME:ADDRESS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// True when the engine must be told to let all users inside bind ports below 1024. Docker allows that by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub low_ports: bool,
    /// Access to the proxy, if it has any. The name in a plan is older, and part of every policy's hash.
    #[serde(rename = "door")]
    pub proxy: Option<ProxyAccess>,
    /// The bridge to the host, if it has one.
    #[serde(skip)]
    pub bridge: Option<Bridge>,
    /// Host commands that the bridge accepts.
    pub host_commands: Vec<String>,
    /// Capabilities of PID 1.
    pub capabilities: Vec<String>,
    /// Devices.
    pub devices: Vec<String>,
    /// True for a privileged container, which can do everything that root on this machine can.
    pub privileged: bool,
    /// True when programs can gain privileges that their caller does not have.
    pub new_privileges: bool,
    /// Memory limit in bytes.
    pub memory: u64,
    /// CPU limit in thousandths of a processor.
    pub cpus: Option<u32>,
    /// Process limit.
    pub pids: u32,
    /// Seconds between the stop signal and the kill.
    pub stop_timeout: u32,
    /// Runtime, if it is not the engine's default.
    pub runtime: Option<String>,
    /// Mode of the user namespace.
    pub userns: Option<String>,
    /// Rules for secrets, so that a changed rule recreates the container.
    pub secrets: BTreeMap<String, Sourced<sandbox_policy::config::Secret>>,
    /// Permissions beyond the minimum.
    pub exceptions: Vec<Exception>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Permission of a container beyond the minimum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// The permission.
    pub what: String,
    /// The reason.
    pub why: String,
    /// Setting that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// File in the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnFile {
    /// Path below the directory.
    pub path: PathBuf,
    /// Content.
    pub text: String,
    /// Mode.
    pub mode: u32,
}

/// Symlink in the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnLink {
    /// Path below the directory.
    pub path: PathBuf,
    /// Target inside the container.
    pub to: PathBuf,
}

/// Directory in the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnDir {
    /// Path below the directory.
    pub path: PathBuf,
    /// Mode.
    pub mode: u32,
    /// True when the agent owns it, and it outlives the container.
    pub agents: bool,
}

/// Access of a container to the user's proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProxyAccess {
    /// Hosts that it can reach by name. Without it, it can reach only the proxy.
    pub policy: Option<EgressPolicy>,
    /// Uid of PID 1 on the host.
    pub peer: u32,
    /// True when sessions share a loopback interface, and each has a separate address there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

impl Container {
    /// Returns a hash of the policy, to detect a container with another policy.
    pub(crate) fn policy_hash(&self) -> String {
        use sha2::{Digest, Sha256};
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(text).into();
        // Half of the digest is enough to distinguish policies, and easier to read.
        let (half, _) = digest.split_at(16);
        format!("{:032x}", half.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte)))
    }

    fn except(&mut self, what: impl Into<String>, why: impl Into<String>, origin: Option<&Origin>) {
        let exception = Exception { what: what.into(), why: why.into(), origin: origin.cloned() };
        self.exceptions.push(exception);
    }

    fn bind(&mut self, bind: Bind) {
        self.mounts.push(bind);
    }

    fn allow(&mut self, names: &[&str], why: &str) {
        for name in names {
            if !self.capabilities.iter().any(|have| have == name) {
                self.capabilities.push((*name).to_owned());
                self.except(format!("capability {name}"), why, None);
            }
        }
    }
}

/// Plans a container. Inspects the paths that it mounts, and changes nothing.
pub fn container(
    host: &Host,
    config: &Config,
    session: &SessionPaths<'_>,
    engine: &EngineFacts,
    image: &Image,
) -> Result<Container, ContainerError> {
    let agent = ContainerAgent::of(host, config, engine);
    let mut made = least(config, engine, image, agent);
    users::check(config, engine)?;
    network(host, config, engine, &mut made)?;
    mounts::project(host, config, engine, &mut made)?;
    layers::keep_apart(config, engine, &mut made)?;
    agent::first_process(config, session, &mut made)?;
    limits(config, engine, &mut made)?;
    rules::below(host, config, &mut made)?;
    rules::commands(host, config, session, &mut made)?;
    rules::resolver(&mut made);
    bridge::open(config, &mut made)?;
    variables::set(host, config, image, &mut made)?;
    volumes(image, &mut made);
    made.mounts.sort_by(|one, other| one.target.cmp(&other.target));
    mounts::check_targets(&made.mounts)?;
    made.secrets = config.secrets.clone();
    Ok(made)
}

fn least(config: &Config, engine: &EngineFacts, image: &Image, agent: ContainerAgent) -> Container {
    let run = agent.of_init("rw,nosuid,nodev,noexec,mode=0755,size=64m");
    let resources = config.session.resources.as_ref().map(|resources| resources.value);
    let resources = resources.unwrap_or_default();
    let mut tmpfs = BTreeMap::from([
        ("/tmp".into(), "rw,nosuid,nodev,exec,mode=1777,size=2g".into()),
        ("/run".into(), run.clone()),
    ]);
    if agent.init_uid.is_some() {
        // The engine creates mount points as root, whose uid is the agent's.
        tmpfs.insert(RUNTIME_DIR.into(), run);
    }
    Container {
        image: image.id.clone(),
        user: agent.user.clone(),
        entrypoint: Vec::new(),
        terminal: false,
        env: BTreeMap::new(),
        unset: Vec::new(),
        mounts: Vec::new(),
        layers: Vec::new(),
        tmpfs,
        files: Vec::new(),
        links: Vec::new(),
        dirs: Vec::new(),
        network: "none".into(),
        hosts: Vec::new(),
        low_ports: false,
        proxy: None,
        bridge: None,
        host_commands: Vec::new(),
        capabilities: Vec::new(),
        devices: Vec::new(),
        privileged: false,
        new_privileges: false,
        memory: resources.memory.map_or(MEMORY, |memory| memory.0),
        cpus: resources.cpus.map(|cpus| cpus.0),
        pids: resources.pids.map_or(PIDS, NonZeroU32::get),
        stop_timeout: GRACE + AFTER_GRACE,
        runtime: None,
        userns: users::mode(engine),
        secrets: BTreeMap::new(),
        exceptions: Vec::new(),
        notes: Vec::new(),
        agent,
    }
}

/// Sets the requested network. The proxy is reached without one.
fn network(
    host: &Host,
    config: &Config,
    engine: &EngineFacts,
    made: &mut Container,
) -> Result<(), ContainerError> {
    let asked = config.session.network.as_ref();
    let wanted = asked.map_or(&ContainerNetwork::None, |network| &network.value);
    let origin = asked.map(|network| &network.origin);
    let peer = users::first(host, engine, made.agent.init_uid)?;
    match wanted {
        ContainerNetwork::None => {}
        ContainerNetwork::Allow => {
            made.proxy = Some(ProxyAccess { policy: Some(config.egress()), peer, shared: false });
        }
        ContainerNetwork::Host => {
            made.except(
                "network host",
                "it can reach everything that this machine can reach",
                origin,
            );
        }
        ContainerNetwork::Bridge | ContainerNetwork::Named(_) => {
            made.except(
                format!("network {}", wanted.word()),
                "it can reach everything that the Docker network can reach",
                origin,
            );
        }
    }
    if *wanted != ContainerNetwork::Allow {
        wanted.word().clone_into(&mut made.network);
    }
    if config.uses_proxy() && made.proxy.is_none() {
        let shared = *wanted == ContainerNetwork::Host;
        if shared {
            let why =
                "it listens on this machine's loopback, for any process with the session's token";
            made.except("access to the proxy", why, origin);
        }
        // Without a network, no name resolves. The proxy serves only this session.
        let policy = (*wanted == ContainerNetwork::None).then(EgressPolicy::default);
        made.proxy = Some(ProxyAccess { policy, peer, shared });
    }
    made.low_ports =
        engine.podman && made.proxy.as_ref().is_some_and(|proxy| proxy.policy.is_some());
    Ok(())
}

fn limits(
    config: &Config,
    engine: &EngineFacts,
    made: &mut Container,
) -> Result<(), ContainerError> {
    users::limits(config, engine, made)?;
    if let Some(runtime) = &config.session.runtime {
        let (name, known) = (runtime.value.as_str().to_owned(), engine.runtimes.clone());
        if !known.contains(&name) {
            return Err(ContainerError::Runtime { name, origin: runtime.origin.clone(), known });
        }
        made.runtime = Some(name);
    }
    let services = config.session.services.as_ref();
    if let Some(services) = services.filter(|services| services.value.dockerd != Dockerd::Off) {
        made.privileged = true;
        made.new_privileges = true;
        let why = "the Docker daemon inside needs it; root inside is root on this machine";
        made.except("privileged", why, Some(&services.origin));
    }
    Ok(())
}

/// Covers the image's volumes with a tmpfs. The engine would mount writable directories there that no rule allows.
fn volumes(image: &Image, made: &mut Container) {
    for volume in &image.volumes {
        let covered = made.mounts.iter().any(|bind| bind.target == *volume);
        if !covered && volume.is_absolute() && volume != Path::new("/") {
            made.tmpfs
                .entry(volume.clone())
                .or_insert_with(|| made.agent.of_init("rw,nosuid,nodev,noexec,mode=0755,size=64m"));
        }
    }
}
