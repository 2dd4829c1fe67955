//! Plan of a sandbox: mounts, environment, network and command, as plain data.

mod state;
mod base_view;
mod protected;
mod mounts;
mod home_overlay;
mod cow;
mod links;
mod environment;
mod sockets;
mod proc;
mod identity;
mod notes;
pub mod withheld;
mod error;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_linux::seccomp::CgroupNamespaces;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

use crate::inspect::Known;
use crate::specificity::{Decisions, decide};
use crate::wrapper::{self, Commands, Cover};
use sandbox_git::protect::GitProtection;
use sandbox_policy::config::{
    Access, Config, ContainerNetwork, Network, Origin, PathRule, Request, Sourced,
};
use sandbox_policy::host::Host;
use sandbox_policy::network::EgressPolicy;
use sandbox_policy::path::resolve::{ResolvedPath, Resolver};
use sandbox_policy::path::{Kind, Resolved, upward};
use sandbox_policy::preset::{self, Presets};

pub use base_view::BaseView;
pub use cow::{CopyOnWrite, CowRoot, Layers, Store, Through};
pub use environment::{Environment, HiddenVariable};
pub use error::PlanError;
pub use home_overlay::{HomeOverlay, mount_below};
pub(crate) use identity::AGENT_ID;
pub use identity::Identity;
pub use proc::Proc;
pub use sockets::docker_places;

/// Complete description of a sandbox and its command. Nothing has been done yet when it exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The command and its arguments.
    #[serde(serialize_with = "texts")]
    pub command: Vec<OsString>,
    /// Variables passed to the command, and those that are hidden from it.
    pub environment: Environment,
    /// True if the host's directories are writable where no rule matches.
    pub root_writable: bool,
    /// Mounts on top of the root, parents first.
    pub mounts: Vec<Mount>,
    /// Hosts that can be reached, if the network is limited to a list of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressPolicy>,
    /// Overlay that hides paths in the home directory, also those that do not exist yet. `None` if paths are hidden
    /// by one mount each.
    #[serde(rename = "veil")]
    pub home_overlay: Option<HomeOverlay>,
    /// Writable paths that are copy-on-write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cow: Option<CopyOnWrite>,
    /// Listening Unix sockets of the host that are hidden, because their directories stay visible.
    pub sockets: Vec<PathBuf>,
    /// The host's top-level names and their link targets. Empty unless a mount needs a new top-level directory.
    #[serde(skip)]
    pub top_level: Vec<(OsString, Option<PathBuf>)>,
    /// Rule for cgroup namespaces of nested sandboxes.
    #[serde(skip)]
    pub cgroups: CgroupNamespaces,
    /// Content of `/run/agent-sandbox`.
    pub runtime: Runtime,
    /// Files whose protection must be restored when the host replaces them.
    pub watched: Vec<PathBuf>,
    /// Notes for the user, such as rules that lost and keys that were skipped.
    pub notes: Vec<String>,
    /// Input of the scan after the run.
    #[serde(skip)]
    pub guard: Guarded,
    /// Every decision about a path, for `why` and `config show`.
    #[serde(skip)]
    pub decisions: Decisions,
    /// Active presets.
    #[serde(skip)]
    pub presets: Presets,
    /// The merged configuration that the plan follows from.
    #[serde(serialize_with = "settings")]
    pub config: Config,
}

/// Input of the scan after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Directories that the user made writable for the command's work.
    pub roots: Vec<PathBuf>,
    /// Repositories in those directories.
    pub git: GitProtection,
    /// Files that must not appear: agent-sandbox's configuration, and read-only paths that do not exist.
    pub files: Vec<PathBuf>,
}

/// Mount inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside.
    pub target: PathBuf,
    /// Content at the target.
    pub view: View,
    /// Type of the source.
    pub kind: Kind,
    /// True if the mount point must be created first, because its parent is created for the sandbox.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
    /// The rule that asks for the mount.
    pub origin: Origin,
}

/// Content of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The source, writable.
    ReadWrite,
    /// The source, read-only.
    ReadOnly,
    /// The source, writable. The kernel refuses to rename a mount point with `EBUSY`, rename(2).
    Pin,
    /// The source with working device files.
    Device,
    /// An empty file.
    EmptyFile,
    /// An empty directory.
    EmptyDir,
}

/// Content of `/run/agent-sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// This binary.
    pub binary: PathBuf,
    /// True if the outer sandbox's runtime is mounted at `outer`.
    pub nested: bool,
    /// Command wrappers.
    pub commands: Commands,
    /// The private `XDG_RUNTIME_DIR`.
    pub user_dir: PathBuf,
    /// User that the command runs as if root started it.
    pub identity: Option<Identity>,
    /// The `/proc` of the command.
    pub proc: Proc,
    /// Replacement of `/etc/resolv.conf`, if the sandbox has a private name server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<ResolverFile>,
    /// Description that `why` reads inside the sandbox; empty until [`Plan::described`].
    #[serde(skip)]
    pub policy: Vec<u8>,
}

/// Replacement of the host's `/etc/resolv.conf`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolverFile {
    /// Path at which a lookup of `/etc/resolv.conf` ends.
    pub target: PathBuf,
    /// True if the file must be created, because its directory is created for the sandbox.
    pub create: bool,
}

/// Loads the configuration of a request and plans it, for callers that only show a plan.
pub fn plan(host: &Host, request: &Request) -> Result<Plan, PlanError> {
    plan_config(host, sandbox_policy::config::load(host, request)?, request.command.clone())
}

/// Plans a configuration without credentials and layers. Nothing is created or changed.
pub fn plan_config(host: &Host, config: Config, command: Vec<OsString>) -> Result<Plan, PlanError> {
    let policy = ResolvedPolicy::of(host, config)?;
    let known = crate::inspect::known(host, &policy.roots());
    let decided = policy.decide(host, &known)?;
    let inputs = decided.inputs(command);
    Ok(decided.finish(inputs))
}

/// Configuration whose path rules are resolved. Files that an earlier run planted in writable directories are scanned
/// at this stage, before any decision depends on what exists there.
#[derive(Debug)]
pub struct ResolvedPolicy {
    config: Config,
    presets: Presets,
    home: Option<ResolvedPath>,
    rules: Vec<Resolved>,
    resolver: Resolver,
    notes: Vec<String>,
}

impl ResolvedPolicy {
    /// Resolves a configuration: expands every `@name`, and makes every path absolute and free of symlinks.
    pub fn of(host: &Host, config: Config) -> Result<Self, PlanError> {
        check_network(&config)?;
        let (presets, mut rules) = preset::expand(host, &config);
        rules.extend(withheld::rules(host, &config));
        let mut resolver = Resolver::default();
        let home = host.home.as_deref().map(|home| resolver.place(home));
        if let Some(home) =
            home.as_ref().filter(|home| presets.has("@base") && home.kind != Kind::Dir)
        {
            return Err(PlanError::Home(home.path.clone()));
        }
        let mut rules = resolve_all(&rules, host, &config, &mut resolver)?;
        let mut notes = Vec::new();
        links::restrict_planted(&mut rules, &mut notes);
        Ok(Self { config, presets, home, rules, resolver, notes })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the directories that the user made writable for the command's work.
    pub fn roots(&self) -> Vec<PathBuf> {
        protected::writable_roots(&self.rules)
    }

    /// Decides the view of each path and the wrapper of each command that has a rule.
    pub fn decide(self, host: &Host, known: &Known) -> Result<Decided, PlanError> {
        let Self { config, presets, home, mut rules, mut resolver, mut notes } = self;
        let roots = protected::writable_roots(&rules);
        let egress = egress(host, &config)?;
        let git = protected::git(host, &presets, &roots, known, &mut rules)?;
        let commands = wrapper::resolve(host, &config, git.enclosing.as_deref())?;
        let policies = protected::nested_policies(&git, known, &mut rules);
        protected::protect_ourselves(host, &config, &commands, &mut resolver, &mut rules);
        let decisions = decide(rules);
        let mounts = mounts::build(host, &config, &decisions, &commands, &git, &mut resolver)?;
        notes.extend(withheld::note(host, &config, &mounts));
        notes.extend(notes::about_repositories(&git, known));
        notes.extend(notes::lost_flags(&decisions));
        notes.extend(notes::read_only_cwd(&presets, &config.cwd, &decisions));
        notes.extend(notes::skipped_keys(&config));
        notes.extend(notes::nothing_allowed(egress.as_ref().filter(|_| !config.uses_proxy())));
        let mut opened = sockets::opened(host, &config, &mut resolver)?;
        opened.extend(sockets::docker(host, &config, &mut resolver)?);
        let root_writable =
            decisions.at(Path::new("/")).is_some_and(|d| d.rule.access == Access::Rw);
        let cow = cow::decide(host, &config, root_writable, &mounts, &mut notes)?;
        let resolver_file = egress
            .as_ref()
            .and_then(|_| mounts::resolver_file(&config, root_writable, &mounts, &mut resolver));
        Ok(Decided(Plan {
            cow,
            egress,
            sockets: sockets::listening(&mounts, &opened),
            home_overlay: home_overlay::decide(
                host,
                &presets,
                &decisions,
                &mounts,
                home.as_ref(),
                &resolver,
            ),
            root_writable,
            watched: protected::watched(&mounts),
            top_level: mounts::top_level(&mounts),
            cgroups: cgroup_namespaces(host),
            runtime: Runtime {
                binary: host.exe.clone(),
                nested: host.inside,
                commands,
                user_dir: format!("/run/user/{}", host.uid).into(),
                identity: Identity::of(host),
                proc: Proc::of(host),
                resolver: resolver_file,
                policy: Vec::new(),
            },
            environment: environment::decide(host, &config, &presets, &opened),
            guard: protected::guarded(&config, &decisions, roots, git, policies),
            mounts,
            command: Vec::new(),
            notes,
            decisions,
            presets,
            config,
        }))
    }
}

/// Decisions that follow from the policy alone. The caller uses them to resolve credentials and layers, and passes
/// both to [`Decided::finish`], which makes the plan.
#[derive(Debug)]
pub struct Decided(Plan);

/// Inputs of a plan that do not follow from the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The command's variables, including those of its credentials.
    pub environment: Environment,
    /// Files that replace files of the host, in addition to command wrappers.
    pub covers: Vec<Cover>,
    /// Store of each root of the plan's copy-on-write; empty without copy-on-write.
    pub stores: Vec<Store>,
}

impl Decided {
    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Returns the mounts, parents first.
    pub fn mounts(&self) -> &[Mount] {
        &self.0.mounts
    }

    /// Returns the writable paths whose changes go into a layer.
    pub fn cow(&self) -> Option<&CopyOnWrite> {
        self.0.cow.as_ref()
    }

    /// Returns the inputs of a plan that has neither credentials nor layers.
    pub fn inputs(&self, command: Vec<OsString>) -> Inputs {
        let environment = self.0.environment.clone();
        Inputs { command, environment, covers: Vec::new(), stores: Vec::new() }
    }

    /// Makes the plan. It is immutable from here on.
    pub fn finish(self, inputs: Inputs) -> Plan {
        let Self(mut plan) = self;
        plan.command = inputs.command;
        plan.environment = inputs.environment;
        plan.runtime.commands.covers.extend(inputs.covers);
        if let Some(cow) = &mut plan.cow {
            cow.stores = inputs.stores;
        }
        plan
    }
}

/// Refuses networks that only containers have. Otherwise they would be ignored silently.
fn check_network(config: &Config) -> Result<(), PlanError> {
    match &config.session.network {
        Some(Sourced {
            value: mode @ (ContainerNetwork::Bridge | ContainerNetwork::Named(_)),
            origin,
        }) => Err(PlanError::ContainerNetwork {
            origin: origin.clone(),
            mode: mode.word().to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Returns the hosts that can be reached, if the network is limited to a list of hosts.
fn egress(host: &Host, config: &Config) -> Result<Option<EgressPolicy>, PlanError> {
    // With the network off, the credential proxy still needs a connection. An empty list allows nothing else.
    if config.network.value == Network::Off && config.uses_proxy() && !host.inside {
        return Ok(Some(EgressPolicy::default()));
    }
    if config.network.value != Network::Allow {
        return Ok(None);
    }
    let origin = config.network.origin.clone();
    if host.inside {
        return Err(PlanError::NestedEgress { origin });
    }
    Ok(Some(config.egress()))
}

pub(crate) fn cgroup_namespaces(host: &Host) -> CgroupNamespaces {
    if host.uid == 0 || sandbox_linux::file::owns_cgroup() {
        return CgroupNamespaces::Refused;
    }
    CgroupNamespaces::Allowed
}

/// Returns the mount that shows a path: the one at the path, or at its nearest parent.
/// `mounts` is sorted by the bytes of the targets.
pub fn nearest<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let at =
        |path: &OsStr| mounts.binary_search_by(|mount| mount.target.as_os_str().cmp(path)).ok();
    upward(path).find_map(at).map(|index| &mounts[index])
}

/// Returns true if a mount lies below a path.
pub fn has_below(mounts: &[Mount], path: &Path) -> bool {
    // `/a-b` sorts between `/a` and `/a/b`.
    let first = path.join("");
    let after = mounts.partition_point(|mount| mount.target.as_os_str() <= first.as_os_str());
    mounts.get(after).is_some_and(|mount| mount.target.starts_with(path))
}

fn resolve_all(
    rules: &[Sourced<PathRule>],
    host: &Host,
    config: &Config,
    resolver: &mut Resolver,
) -> Result<Vec<Resolved>, PlanError> {
    let mut resolve =
        |rule: &Sourced<PathRule>| resolver.resolve(rule, &config.cwd, host.home.as_deref());
    let mut removed: Vec<Resolved> = Vec::new();
    for rule in &config.unruled {
        removed.extend(resolve(rule)?);
    }
    let mut kept: Vec<Resolved> = Vec::new();
    for rule in rules {
        let is_preset = matches!(rule.origin, Origin::Preset(_));
        let stays = |rule: &Resolved| {
            !is_preset
                || !removed
                    .iter()
                    .any(|other| other.access == rule.access && other.path == rule.path)
        };
        kept.extend(resolve(rule)?.into_iter().filter(stays));
    }
    kept.iter().find(|rule| base_view::is_reserved(rule)).map_or(Ok(()), |rule| {
        Err(PlanError::Reserved { path: rule.path.clone(), origin: rule.origin.clone() })
    })?;
    Ok(kept)
}

fn texts<S: serde::Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

/// Serializes the settings without the variables, whose values are private to the user.
fn settings<S: serde::Serializer>(config: &Config, serializer: S) -> Result<S::Ok, S::Error> {
    let Config { cwd, network, hosts, docker, tmp, launcher, .. } = config;
    let mut map = serializer.serialize_struct("Config", 6)?;
    map.serialize_field("cwd", cwd)?;
    map.serialize_field("network", network)?;
    map.serialize_field("hosts", hosts)?;
    map.serialize_field("docker", docker)?;
    map.serialize_field("tmp", tmp)?;
    map.serialize_field("launcher", launcher)?;
    map.end()
}
