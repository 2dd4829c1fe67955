//! Configuration layers: built-in, global, project and flags. They are read, checked for trust and merged.
//!
//! `file` parses JSONC and TOML into one typed schema. `layer` records the origin of each value. `merge` combines the
//! layers into one [`Config`]. `trust` stops a project's file from widening the policy without the user's consent.

mod digest;
mod network;
mod project_dirs;
mod repository;
mod discover;
mod places;
pub mod command;
pub mod command_rule;
pub mod file;
pub mod layer;
mod base_dirs;
mod enforced;
mod values;
mod hosts;
mod session;
mod path_rule;
mod merge;
pub mod env_file;
pub mod trust;
mod widening;
mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::text::shown;
pub use base_dirs::BaseDirs;
pub use discover::{Found, GLOBAL_NAMES, Located, PROJECT_NAMES, locate};
pub use error::ConfigError;
pub use file::{
    AgentInit, ArgumentText, BackendKind, BasicUser, CowEngine, Dockerd, FormatText, HeaderText,
    Home, HostCommands, HostKey, Memory, ModelText, QueryText, Resources, RouteText, Secret,
    SecretMode, Services, StoredName, ToolText, Transport, UpstreamUrl, Workspace,
};
pub use hosts::{HostEntry, HostList, Hosts};
pub use layer::{Layer, Origin, Sourced};
pub use network::{Network, NotANetwork, switch};
pub use path_rule::PathRule;
pub use places::{ConfigPath, places};
pub use session::{Changed, ContainerNetwork, SessionConfig};
pub use values::Values;

use crate::Host;
use crate::config::command_rule::CommandRule;
use crate::network::{EgressPolicy, UploadLimit};

/// Reads, checks and merges all layers.
///
/// A project's file that widens the policy applies only if the user trusts it. The error lists each widening.
pub fn load(host: &Host, request: &Request) -> Result<Config, ConfigError> {
    load_noting(host, request, &mut Vec::new())
}

/// Loads the configuration and binds the request to it. A recorded request accepts the contents that were read here,
/// and no later ones.
pub fn load_bound(host: &Host, request: &mut Request) -> Result<Config, ConfigError> {
    let mut accepted = Vec::new();
    let config = load_noting(host, request, &mut accepted)?;
    request.trust = false;
    request.accepted = Some(accepted);
    Ok(config)
}

fn load_noting(
    host: &Host,
    request: &Request,
    accepted: &mut Vec<Accepted>,
) -> Result<Config, ConfigError> {
    let located = locate(host, request)?;
    let dirs = BaseDirs { cwd: located.cwd.clone(), home: host.home.clone() };
    let mut config = merge::builtin(&dirs);
    for found in &located.files {
        let values = read(host, request, (&located, found), &config, &dirs, accepted)?;
        merge::apply(&mut config, values, &dirs);
        config.loaded.push((found.layer, found.path.clone()));
    }
    if request.repo {
        config.repo = Some(repository::root(host, &dirs.cwd)?);
    }
    merge::apply(&mut config, Values::of_request(request, &dirs)?, &dirs);
    config.paths.extend(config.repo.as_deref().map(repository::rule));
    bind_variables(&mut config, request, accepted);
    merge::check_secrets(&config)?;
    config.files = guarded(host, &located);
    Ok(config)
}

/// Binds `env_file` to its accepted content if an accepted file names it.
fn bind_variables(config: &mut Config, request: &Request, accepted: &mut Vec<Accepted>) {
    let Some(Sourced { value: file, origin: Origin::File { path, .. } }) = &config.session.env_file
    else {
        return;
    };
    if !accepted.iter().any(|known| known.path == **path) {
        return;
    }
    let digest = match &request.accepted {
        Some(known) => known.iter().find(|known| known.path == *file).map(|it| it.digest.clone()),
        // A file that cannot be read is reported when its variables are needed.
        None => std::fs::read(file).ok().map(|bytes| trust::Digest::of(&bytes)),
    };
    let digest = digest.unwrap_or_default();
    accepted.push(Accepted { path: file.clone(), digest: digest.clone() });
    config.session.env_accepted = Some(digest);
}

/// Reads the values of one file. Fails if they widen the layers below and the user does not trust the file.
fn read(
    host: &Host,
    request: &Request,
    (located, found): (&Located, &Found),
    below: &Config,
    dirs: &BaseDirs,
    accepted: &mut Vec<Accepted>,
) -> Result<Values, ConfigError> {
    found.check_owner(host, &dirs.cwd)?;
    let bytes = found.read()?;
    let (text, syntax) = found.decode(&bytes)?;
    let file = file::parse(text, syntax, &found.path)?;
    let values = Values::of_file(&file, found, dirs)?;
    if found.layer != Layer::Project {
        return Ok(values);
    }
    let digest = trust::Digest::of(&bytes);
    if request.accepts(found, &digest) {
        accepted.push(Accepted { path: found.path.clone(), digest });
    } else {
        let mut below = below.clone();
        // With hosts on the command line, the user expects only these hosts, not those of an untrusted file.
        if request.narrows_network() && below.network.value == Network::On {
            below.network.value = Network::Allow;
        }
        let widenings = trust::widenings(&below, &values, dirs);
        if !widenings.is_empty() && !trust::is_trusted(host, &found.path, &bytes) {
            let (file, alone) = (found.path.clone(), located.is_alone(found));
            return Err(ConfigError::Untrusted { file, digest, widenings, alone });
        }
    }
    Ok(values)
}

/// Returns the files that configure the next run, so this run must not be able to write them.
fn guarded(host: &Host, located: &Located) -> Vec<PathBuf> {
    let mut files: Vec<_> = located.files.iter().flat_map(Found::names).collect();
    for dir in located.dirs.iter().chain([&located.cwd]) {
        files.extend(PROJECT_NAMES.map(|name| dir.join(name)));
    }
    files.extend(host.config_dir());
    files.extend(host.state_dir());
    files.sort();
    files.dedup();
    files
}

/// Returns the JSON Schema of a configuration file.
pub fn schema() -> serde_json::Value {
    file::describe()
}

/// Policy that the command line requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Request {
    /// `--cwd`: the effective working directory.
    pub cwd: Option<PathBuf>,
    /// `--config`: the file that replaces the project's files.
    pub config: Option<PathBuf>,
    /// `--network`.
    pub network: Option<Network>,
    /// `--allow-host`.
    pub hosts: Vec<String>,
    /// `--docker`.
    pub docker: Option<bool>,
    /// `--cow`.
    pub cow: Option<Cow>,
    /// `--ro`, `--rw` and `--exclude`, in the order typed.
    pub paths: Vec<(Access, String)>,
    /// `--repo`: makes the repository of the working directory writable.
    #[serde(default)]
    pub repo: bool,
    /// `--cmd NAME=RULE`.
    pub commands: Vec<(String, CommandRule)>,
    /// `--env NAME` (passes it, even if it looks like a credential) and `--env NAME=VALUE`.
    pub env: Vec<(String, Option<OsString>)>,
    /// `--trust`, or `AGENT_SANDBOX_TRUST=1`.
    pub trust: bool,
    /// The contents that were accepted when the request was recorded. With them, neither `--trust` nor `--config` makes
    /// other contents trusted.
    #[serde(default)]
    pub accepted: Option<Vec<Accepted>>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// A file with the content that the user accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub digest: trust::Digest,
}

impl Request {
    /// Reads a request from a record. A record without accepted contents accepts none.
    pub fn recall(text: &str) -> serde_json::Result<Self> {
        let mut request: Self = serde_json::from_str(text)?;
        request.trust = false;
        request.accepted.get_or_insert_default();
        Ok(request)
    }

    fn accepts(&self, found: &Found, digest: &trust::Digest) -> bool {
        match &self.accepted {
            None => self.trust || found.named,
            Some(known) => {
                known.iter().any(|known| known.path == found.path && known.digest == *digest)
            }
        }
    }

    fn narrows_network(&self) -> bool {
        !self.hosts.is_empty() || self.network == Some(Network::Allow)
    }
}

/// Access that a path rule gives, in order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Readable and writable.
    Rw,
    /// Readable.
    Ro,
    /// Not visible.
    Exclude,
}

impl Access {
    /// Returns the word for it in configuration files and flags.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rw => "rw",
            Self::Ro => "ro",
            Self::Exclude => "exclude",
        }
    }
}

/// `/tmp` that the command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tmp {
    /// A new one, removed after the run.
    Private,
    /// The host's.
    Host,
}

/// Copy-on-write: engine and scope. With an engine, changes go into a layer until they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cow {
    /// The engine.
    #[serde(deserialize_with = "engine")]
    pub engine: CowEngine,
    /// The writable paths that it covers.
    pub scope: CowScope,
}

/// Writable paths that copy-on-write covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CowScope {
    /// The working directory, and the paths that the user's rules make writable.
    Work,
    /// Caches and the state of agents too.
    All,
}

/// Reads an engine by its word in records. Configuration files use other words.
fn engine<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<CowEngine, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(CowEngine::Off),
        "on" => Ok(CowEngine::On),
        "overlay" => Ok(CowEngine::Overlay),
        "agentfs" => Ok(CowEngine::Agentfs),
        word => Err(serde::de::Error::custom(format!("unknown engine `{word}`"))),
    }
}

impl Cow {
    /// Changes go directly into the tree.
    pub const OFF: Self = Self { engine: CowEngine::Off, scope: CowScope::Work };
    /// Changes to the work go into a layer. The engine is chosen automatically.
    pub const ON: Self = Self { engine: CowEngine::On, scope: CowScope::Work };

    /// Returns the flag that asks for it.
    pub fn flag(self) -> String {
        let value = match (self.engine, self.scope) {
            (CowEngine::Off, _) => "=false",
            (_, CowScope::All) => "=all",
            (CowEngine::On, _) => "",
            (CowEngine::Overlay, _) => "=overlay",
            (CowEngine::Agentfs, _) => "=agentfs",
        };
        format!("--cow{value}")
    }

    /// Returns true when changes go into a layer.
    pub fn is_on(self) -> bool {
        self.engine != CowEngine::Off
    }
}

/// Replacement for a command that has a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Launcher {
    /// This binary, which dispatches on its name.
    Binary,
    /// A two-line shell script that calls this binary.
    Shim,
}

/// A bind mount of `mounts` or `shared_dirs`, with an absolute host path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BindMount {
    /// The path on the host.
    pub host: PathBuf,
    /// The path inside.
    pub target: PathBuf,
    /// `Rw` or `Ro`.
    pub access: Access,
}

impl Config {
    /// Returns true when the proxy holds a credential.
    pub fn uses_proxy(&self) -> bool {
        self.secrets.values().any(|secret| secret.value.mode == SecretMode::Proxy)
    }

    /// Returns the policy of the host lists, for a network with an allow list.
    pub fn egress(&self) -> EgressPolicy {
        let limit = self
            .upload_limit
            .as_ref()
            .map(|limit| UploadLimit { bytes: limit.value, origin: limit.origin.to_string() });
        EgressPolicy { upload_limit: limit, ..self.hosts.policy() }
    }
}

/// The merged configuration. Every value has its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The effective working directory: absolute, with symlinks resolved.
    pub cwd: PathBuf,
    /// Root of the repository that `--repo` makes writable.
    #[serde(skip)]
    pub repo: Option<PathBuf>,
    /// `filesystem.presets` of all layers, in order: `@name` or `!@name`.
    pub presets: Vec<Sourced<String>>,
    /// Path rules of all layers. Removals (`!PATH`) are already applied.
    pub paths: Vec<Sourced<PathRule>>,
    /// Path patterns that a `!PATH` of a layer removes from the presets.
    pub unruled: Vec<Sourced<PathRule>>,
    /// Effective rule for each command name.
    pub commands: BTreeMap<String, Sourced<CommandRule>>,
    /// Network.
    pub network: Sourced<Network>,
    /// Lists of hosts. They apply only with [`Network::Allow`].
    pub hosts: Hosts,
    /// Limit on the bytes that may be sent to the hosts of each line.
    pub upload_limit: Option<Sourced<u64>>,
    /// Docker socket.
    pub docker: Sourced<bool>,
    /// `/tmp`.
    pub tmp: Sourced<Tmp>,
    /// Launcher.
    pub launcher: Sourced<Launcher>,
    /// Copy-on-write.
    pub cow: Sourced<Cow>,
    /// Unix sockets to open, as written.
    pub sockets: Vec<Sourced<String>>,
    /// Bind mounts.
    pub mounts: Vec<Sourced<BindMount>>,
    /// Variables to set (`Some`) or to pass (`None`).
    pub env: BTreeMap<String, Sourced<Option<OsString>>>,
    /// Credentials by name, never with their values.
    pub secrets: BTreeMap<String, Sourced<Secret>>,
    /// The keys of sessions.
    #[serde(skip)]
    pub session: SessionConfig,
    /// Keys that only sessions use. They have no effect on a single command.
    pub skipped: Vec<Sourced<String>>,
    /// Paths that the sandbox must not be able to write: the files that were read (a link and its target), all names of
    /// project files whether they exist or not, and the user's configuration and state directories.
    pub files: Vec<PathBuf>,
    /// Configuration files that were loaded, for `config path` and `--debug`.
    pub loaded: Vec<(Layer, PathBuf)>,
}
