//! Merged settings of sessions: tables merge by key, and a later single value wins.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::digest::Digest;
use super::file::{
    AgentConfig, BackendKind, Home, HostCommands, ImageName, NetworkMode, NetworkText, Proxy,
    Resources, RuntimeName, Services, Workspace,
};
use super::layer::Sourced;
use super::{BindMount, Network};

/// The keys of sessions that are set, each with its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionConfig {
    /// The backend.
    pub backend: Option<Sourced<BackendKind>>,
    /// The image of a container.
    pub image: Option<Sourced<ImageName>>,
    /// The container runtime.
    pub runtime: Option<Sourced<RuntimeName>>,
    /// The agent.
    pub agent: Option<Sourced<AgentConfig>>,
    /// A file of variables, absolute.
    pub env_file: Option<Sourced<PathBuf>>,
    /// The content of that file that the user accepted. Without one, any content is used.
    pub env_accepted: Option<Digest>,
    /// Limits.
    pub resources: Option<Sourced<Resources>>,
    /// The credential proxy.
    pub proxy: Option<Sourced<Proxy>>,
    /// The working copy of a container.
    pub workspace: Option<Sourced<Workspace>>,
    /// The home of a container.
    pub home: Option<Sourced<Home>>,
    /// Services that run beside the agent.
    pub services: Option<Sourced<Services>>,
    /// Commands that run on the host.
    pub host_commands: Option<Sourced<HostCommands>>,
    /// The network of a container. Default: none.
    pub network: Option<Sourced<ContainerNetwork>>,
    /// The position of `sandbox`, if keys are below it.
    pub nested: Option<Sourced<()>>,
}

/// Network of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerNetwork {
    /// No network.
    None,
    /// Only listed hosts, through the proxy.
    Allow,
    /// The host's network.
    Host,
    /// Docker's bridge.
    Bridge,
    /// A Docker network, by name.
    Named(String),
}

impl ContainerNetwork {
    /// Returns the word for it in configuration files.
    pub fn word(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Allow => "allow",
            Self::Host => "host",
            Self::Bridge => "bridge",
            Self::Named(name) => name,
        }
    }

    /// Returns the container network for a value in a configuration file.
    pub(super) fn of_text(text: &NetworkText) -> Self {
        match text {
            NetworkText::Switch(true) => Self::Host,
            NetworkText::Switch(false) => Self::None,
            NetworkText::Mode(mode) => Self::of_mode(mode),
            NetworkText::Table(table) => table.mode.as_ref().map_or(Self::Allow, Self::of_mode),
        }
    }

    fn of_mode(mode: &NetworkMode) -> Self {
        match mode {
            NetworkMode::None => Self::None,
            NetworkMode::Host => Self::Host,
            NetworkMode::Bridge => Self::Bridge,
            NetworkMode::Allow => Self::Allow,
            NetworkMode::Named(name) => Self::Named(name.clone()),
        }
    }
}

impl From<Network> for ContainerNetwork {
    fn from(network: Network) -> Self {
        match network {
            Network::On => Self::Host,
            Network::Allow => Self::Allow,
            Network::Off => Self::None,
        }
    }
}

/// A file whose content differs from the content that the user accepted.
#[derive(Debug, Error)]
#[error("the file changed after it was accepted")]
pub struct Changed;

impl Changed {
    /// The next step for the user.
    pub const HINT: &str = "read it, then accept it: pass `--trust`, or allow the configuration with `agent-sandbox trust`";

    /// Returns true when an error has this cause.
    pub fn is_in(error: &io::Error) -> bool {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).is_some()
    }
}

impl SessionConfig {
    /// Reads `env_file`. A content that the user did not accept is an error with [`Changed`] inside.
    pub fn env_text(&self) -> io::Result<Option<String>> {
        let Some(file) = &self.env_file else { return Ok(None) };
        let text = std::fs::read_to_string(&file.value)?;
        match &self.env_accepted {
            Some(accepted) if *accepted != Digest::of(text.as_bytes()) => {
                Err(io::Error::other(Changed))
            }
            _ => Ok(Some(text)),
        }
    }

    /// Returns the backend: the configured one, else Docker if a key applies only to containers.
    pub fn backend(&self, mounts: &[Sourced<BindMount>]) -> BackendKind {
        if let Some(backend) = &self.backend {
            return backend.value;
        }
        let for_containers = [
            self.image.is_some(),
            self.agent.is_some(),
            self.host_commands.is_some(),
            self.nested.is_some(),
            !mounts.is_empty(),
        ];
        if for_containers.contains(&true) { BackendKind::Docker } else { BackendKind::Bwrap }
    }

    /// Merges a later layer.
    pub(super) fn apply(&mut self, later: Self) {
        replace(&mut self.backend, later.backend);
        replace(&mut self.image, later.image);
        replace(&mut self.runtime, later.runtime);
        replace(&mut self.env_file, later.env_file);
        replace(&mut self.network, later.network);
        replace(&mut self.nested, later.nested);
        replace(&mut self.services, later.services);
        replace(&mut self.host_commands, later.host_commands);
        replace(&mut self.proxy, later.proxy);
        merge(&mut self.agent, later.agent, AgentConfig::over);
        merge(&mut self.resources, later.resources, Resources::over);
        merge(&mut self.workspace, later.workspace, Workspace::over);
        merge(&mut self.home, later.home, Home::over);
    }
}

fn replace<T>(current: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *current = later;
    }
}

/// Merges a table with that of an earlier layer, key by key.
fn merge<T>(current: &mut Option<Sourced<T>>, later: Option<Sourced<T>>, over: impl Fn(T, T) -> T) {
    let Some(later) = later else { return };
    *current = Some(match current.take() {
        None => later,
        Some(earlier) => Sourced::new(over(later.value, earlier.value), later.origin),
    });
}
