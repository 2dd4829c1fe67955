//! A configuration as a container: plain data, decided before anything is made. Whatever the container is
//! given beyond the least is an [`Exception`] with its reason.
//!
//! The least: no network, no capability, no new privileges, a read-only root, `/tmp` and `/run` of its own,
//! limits, and of the host nothing but what is mounted.

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
use std::path::{Path, PathBuf};

use sandbox_bridge::session::Bridge;
use sandbox_policy::config::{Config, ContainerNetwork, Dockerd, Origin, Sourced};
use sandbox_policy::host::Host;
use sandbox_policy::network::EgressPolicy;
use sandbox_protocol::layout::RUNTIME_DIR;
use serde::Serialize;

pub use agent::{Agent, Start};
pub use error::ContainerError;
pub use layers::LayeredDir;
pub use mounts::{Bind, Identity, Source};
pub use users::Range;

/// The image that is used when none is named.
pub const IMAGE: &str = "sandbox-image";
/// Processes, unless `resources.pids` says otherwise.
const PIDS: u32 = 4096;
/// Memory, unless `resources.memory` says otherwise.
const MEMORY: u64 = 8 << 30;
/// How long the agent has to end, and how much longer the container has.
const GRACE: u32 = 10;
const AFTER_GRACE: u32 = 20;

/// Paths of the session that the container is made for.
#[derive(Debug, Clone)]
pub struct SessionPaths<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its directory on the host, where nobody else can look.
    pub dir: &'a Path,
    /// The static binaries that are mounted into the container: this program and its first process.
    pub binaries: &'a Binaries,
}

/// Where the static binaries lie on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binaries {
    /// `agent-sandbox`.
    pub sandbox: Option<PathBuf>,
    /// `agent-sandbox-init`; without it, the image has to have one.
    pub init: Option<PathBuf>,
}

/// What is known about the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Engine {
    /// Its socket.
    pub socket: PathBuf,
    /// Whether its root is an ordinary user of this machine.
    pub rootless: bool,
    /// Whether it is Podman.
    pub podman: bool,
    /// Runtimes that it has.
    pub runtimes: Vec<String>,
    /// How its own users are this machine's, where its root is an ordinary one.
    pub users: Vec<Range>,
    /// What it cannot limit: `memory`, `pids`, `cpus`.
    pub unlimited: Vec<&'static str>,
}

/// What is known about the image. Nothing of it is obeyed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its id, which names this content and no other.
    pub id: String,
    /// Variables that it sets, `NAME=VALUE`.
    pub env: Vec<String>,
    /// Directories that it wants volumes for.
    pub volumes: Vec<PathBuf>,
}

/// A container that is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Container {
    /// The image's id.
    pub image: String,
    /// Who its first process is.
    pub user: String,
    /// Who the agent is, and every command that enters.
    pub agent: Agent,
    /// The first process and its words.
    pub entrypoint: Vec<String>,
    /// Whether the agent has a terminal, which can be joined.
    pub terminal: bool,
    /// Variables. Those of secrets come later, and are in no plan.
    pub env: BTreeMap<String, String>,
    /// Variables of the image that are taken away.
    pub unset: Vec<String>,
    /// Bind mounts, parents first.
    pub mounts: Vec<Bind>,
    /// Directories whose changes are kept apart.
    pub layers: Vec<LayeredDir>,
    /// File systems in memory, with their options.
    pub tmpfs: BTreeMap<PathBuf, String>,
    /// Files of ours below the session's directory that mounts show, with their mode.
    pub files: Vec<OwnFile>,
    /// Links of ours below the session's directory.
    pub links: Vec<OwnLink>,
    /// Directories of ours below the session's directory, with their mode and whether the agent owns them.
    pub dirs: Vec<OwnDir>,
    /// What it can reach.
    pub network: String,
    /// Names inside, and where the engine leads them: `NAME:ADDRESS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether the engine has to be told that everybody inside may use low ports: Docker does so by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub low_ports: bool,
    /// The way to the proxy, if it has one.
    pub door: Option<Door>,
    /// The bridge to the host, if it has one.
    #[serde(skip)]
    pub bridge: Option<Bridge>,
    /// What goes over it.
    pub host_commands: Vec<String>,
    /// Capabilities that its first process has.
    pub capabilities: Vec<String>,
    /// Devices that it has.
    pub devices: Vec<String>,
    /// Whether it is a machine of its own, with everything that this one can do.
    pub privileged: bool,
    /// Whether programs may get rights that their caller has not.
    pub new_privileges: bool,
    /// The most memory, in bytes.
    pub memory: u64,
    /// The most processor time, in thousandths of a processor.
    pub cpus: Option<u32>,
    /// The most processes.
    pub pids: u32,
    /// Seconds between being asked to end and being killed.
    pub stop_timeout: u32,
    /// Another runtime than the engine's own.
    pub runtime: Option<String>,
    /// How the engine's users are this machine's.
    pub userns: Option<String>,
    /// The rules for secrets, so that another one makes another container.
    pub secrets: BTreeMap<String, Sourced<sandbox_policy::config::Secret>>,
    /// Everything that it has beyond the least.
    pub exceptions: Vec<Exception>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Something that a container has beyond the least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// What.
    pub what: String,
    /// What for.
    pub why: String,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A file of the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnFile {
    /// Its place below the directory.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
    /// Its permissions.
    pub mode: u32,
}

/// A link of the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnLink {
    /// Its place below the directory.
    pub path: PathBuf,
    /// Where it leads, inside.
    pub to: PathBuf,
}

/// A directory of the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnDir {
    /// Its place below the directory.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// Whether it is the agent's, and outlives the container.
    pub agents: bool,
}

/// The way from a container to the user's proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Door {
    /// Where it may go by name; without it, to the proxy alone.
    pub policy: Option<EgressPolicy>,
    /// The user that the first process has, as this machine counts.
    pub peer: u32,
    /// Whether many listen on the same loopback: each then has an address of its own there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

impl Container {
    /// What the policy comes to, so that a container of another one is told apart.
    pub fn policy_hash(&self) -> String {
        use sha2::{Digest, Sha256};
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(text).into();
        // Half of it tells policies apart as well, and is read more easily.
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

/// Decides everything about a container. Looks at what is to be mounted, and changes nothing.
pub fn container(
    host: &Host,
    config: &Config,
    session: &SessionPaths<'_>,
    engine: &Engine,
    image: &Image,
) -> Result<Container, ContainerError> {
    let agent = Agent::of(host, config, engine)?;
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

fn least(config: &Config, engine: &Engine, image: &Image, agent: Agent) -> Container {
    let run = agent.of_init("rw,nosuid,nodev,noexec,mode=0755,size=64m");
    let resources = config.session.resources.as_ref().map(|resources| resources.value);
    let resources = resources.unwrap_or_default();
    let mut tmpfs = BTreeMap::from([
        ("/tmp".into(), "rw,nosuid,nodev,exec,mode=1777,size=2g".into()),
        ("/run".into(), run.clone()),
    ]);
    if agent.init_uid.is_some() {
        // The engine makes places for mounts as root's, whose number is the agent's.
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
        door: None,
        bridge: None,
        host_commands: Vec::new(),
        capabilities: Vec::new(),
        devices: Vec::new(),
        privileged: false,
        new_privileges: false,
        memory: resources.memory.map_or(MEMORY, |memory| memory.0),
        cpus: resources.cpus.map(|cpus| cpus.0),
        pids: resources.pids.unwrap_or(PIDS),
        stop_timeout: GRACE + AFTER_GRACE,
        runtime: None,
        userns: users::mode(engine),
        secrets: BTreeMap::new(),
        exceptions: Vec::new(),
        notes: Vec::new(),
        agent,
    }
}

/// The network as it was asked for. Where the proxy is needed, it is reached without one.
fn network(
    host: &Host,
    config: &Config,
    engine: &Engine,
    made: &mut Container,
) -> Result<(), ContainerError> {
    let asked = config.session.network.as_ref();
    let wanted = asked.map_or(&ContainerNetwork::None, |network| &network.value);
    let origin = asked.map(|network| &network.origin);
    // The engine's modes have such names too, and none of them is a network's.
    if let ContainerNetwork::Named(name) = wanted
        && (name == "default" || name.starts_with("container") || name.starts_with("ns"))
        && let Some(asked) = asked
    {
        return Err(ContainerError::Network { name: name.clone(), origin: asked.origin.clone() });
    }
    let peer = users::first(host, engine, made.agent.init_uid)?;
    match wanted {
        ContainerNetwork::None => {}
        ContainerNetwork::Allow => {
            made.door = Some(Door { policy: Some(config.egress()), peer, shared: false });
        }
        ContainerNetwork::Host => {
            made.except("network host", "it reaches whatever this machine reaches", origin);
        }
        ContainerNetwork::Bridge | ContainerNetwork::Named(_) => {
            made.except(
                format!("network {}", wanted.word()),
                "it reaches what Docker's network reaches",
                origin,
            );
        }
    }
    if *wanted != ContainerNetwork::Allow {
        wanted.word().clone_into(&mut made.network);
    }
    if config.uses_proxy() && made.door.is_none() {
        let shared = *wanted == ContainerNetwork::Host;
        if shared {
            let why =
                "it listens on this machine's own loopback, for whoever has the session's token";
            made.except("the way to the proxy", why, origin);
        }
        // With no network at all, names lead nowhere: the proxy answers for nothing but its sessions.
        let policy = (*wanted == ContainerNetwork::None).then(EgressPolicy::default);
        made.door = Some(Door { policy, peer, shared });
    }
    made.low_ports = engine.podman && made.door.as_ref().is_some_and(|door| door.policy.is_some());
    Ok(())
}

fn limits(config: &Config, engine: &Engine, made: &mut Container) -> Result<(), ContainerError> {
    users::limits(config, engine, made)?;
    if let Some(runtime) = &config.session.runtime {
        let (name, known) = (runtime.value.clone(), engine.runtimes.clone());
        if !known.contains(&name) {
            return Err(ContainerError::Runtime { name, origin: runtime.origin.clone(), known });
        }
        made.runtime = Some(name);
    }
    let services = config.session.services.as_ref();
    if let Some(services) = services.filter(|services| services.value.dockerd != Dockerd::Off) {
        made.privileged = true;
        made.new_privileges = true;
        let why = "a Docker daemon inside needs it: whoever is root inside is root on this machine";
        made.except("privileged", why, Some(&services.origin));
    }
    Ok(())
}

/// An image that asks for volumes would get writable places that nobody granted.
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
