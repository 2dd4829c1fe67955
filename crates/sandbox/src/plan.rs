//! The decision: mounts, environment, network, command. Plain data, comparable, printable.

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
use sandbox_policy::path::resolve::{Place, Resolver};
use sandbox_policy::path::{Kind, Resolved, upward};
use sandbox_policy::preset::{self, Presets};

pub use base_view::BaseView;
pub use cow::{CopyOnWrite, CowRoot, Layers, Store, Through};
pub use environment::{Environment, HiddenVariable};
pub use error::PlanError;
pub use home_overlay::{HomeOverlay, mount_below};
pub use identity::{AGENT_ID, Identity};
pub use proc::Proc;
pub use sockets::docker_places;

/// Everything that will be done, before the first of it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The command and its arguments.
    #[serde(serialize_with = "texts")]
    pub command: Vec<OsString>,
    /// The variables that the command sees, and those that it does not.
    pub environment: Environment,
    /// Whether the host's directories are writable where no rule says otherwise.
    pub root_writable: bool,
    /// Mounts on top of the read-only root, parents first.
    pub mounts: Vec<Mount>,
    /// Which hosts can be reached, where the network is by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressPolicy>,
    /// The home directory, when hiding in it can be done by one overlay, and what else that
    /// overlay hides: paths that do not exist yet.
    #[serde(rename = "veil")]
    pub home_overlay: Option<HomeOverlay>,
    /// Writable places whose changes are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cow: Option<CopyOnWrite>,
    /// Unix sockets that somebody on the host listens on, in places that stay visible.
    pub sockets: Vec<PathBuf>,
    /// The host's top-level names and what they link to, when a mount needs a new one beside them.
    #[serde(skip)]
    pub top_level: Vec<(OsString, Option<PathBuf>)>,
    /// Whether nested sandboxes may have a cgroup namespace.
    #[serde(skip)]
    pub cgroups: CgroupNamespaces,
    /// What lies under `/run/agent-sandbox`.
    pub runtime: Runtime,
    /// Files and directories whose protection must survive being replaced from the host.
    pub watched: Vec<PathBuf>,
    /// What the user should know: rules that lost, keys that were skipped.
    pub notes: Vec<String>,
    /// What the end of the run looks at.
    #[serde(skip)]
    pub guard: Guarded,
    /// Every decision about a path, for `why` and `config show`.
    #[serde(skip)]
    pub decisions: Decisions,
    /// Presets that are on.
    #[serde(skip)]
    pub presets: Presets,
    /// The merged configuration that all of this follows from.
    #[serde(serialize_with = "settings")]
    pub config: Config,
}

/// What the end of the run looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Where the command may write for its work.
    pub roots: Vec<PathBuf>,
    /// The repositories there.
    pub git: GitProtection,
    /// Files that must not appear: configuration of ours, and read-only paths that are missing.
    pub files: Vec<PathBuf>,
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside.
    pub target: PathBuf,
    /// What is seen there.
    pub view: View,
    /// What it is.
    pub kind: Kind,
    /// Whether the place has to be made first, because it lies in a directory of ours.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
    /// Why.
    pub origin: Origin,
}

/// What a mount shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The source, writable.
    ReadWrite,
    /// The source, read-only.
    ReadOnly,
    /// The source as it is, only so that it cannot be renamed.
    Pin,
    /// The source with working device files.
    Device,
    /// An empty file.
    EmptyFile,
    /// An empty directory.
    EmptyDir,
}

/// What lies under `/run/agent-sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// This binary.
    pub binary: PathBuf,
    /// Whether an outer sandbox's runtime is kept at `outer`.
    pub nested: bool,
    /// Command wrappers.
    pub commands: Commands,
    /// The private `XDG_RUNTIME_DIR`.
    pub user_dir: PathBuf,
    /// Who the command is when root started it.
    pub identity: Option<Identity>,
    /// Which `/proc` it sees.
    pub proc: Proc,
    /// The file that says which name server to ask, where that is the sandbox's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<ResolverFile>,
    /// Description by which `why` answers inside; empty until [`Plan::described`].
    #[serde(skip)]
    pub policy: Vec<u8>,
}

/// A file that stands in for the host's `/etc/resolv.conf`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolverFile {
    /// Where a lookup of that name ends.
    pub target: PathBuf,
    /// Whether nothing is there, because it lies in a directory of ours.
    pub create: bool,
}

/// Loads the configuration of a request and plans it, for callers that only look at a plan.
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

/// A configuration whose path rules are resolved. What an earlier run left in the writable
/// places is looked at now, before anything is decided by what exists there.
#[derive(Debug)]
pub struct ResolvedPolicy {
    config: Config,
    presets: Presets,
    home: Option<Place>,
    rules: Vec<Resolved>,
    resolver: Resolver,
    notes: Vec<String>,
}

impl ResolvedPolicy {
    /// Every `@name` is gone, and every path absolute and real.
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

    /// The configuration that it is made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The places in which the command may write for its work.
    pub fn roots(&self) -> Vec<PathBuf> {
        protected::writable_roots(&self.rules)
    }

    /// Decides one view per path and one stand-in per ruled command.
    pub fn decide(self, host: &Host, known: &Known) -> Result<Decided, PlanError> {
        let Self { config, presets, home, mut rules, mut resolver, mut notes } = self;
        let roots = protected::writable_roots(&rules);
        let commands = wrapper::resolve(host, &config)?;
        let egress = egress(host, &config)?;
        let git = protected::git(host, &presets, &roots, known, &mut rules)?;
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
            guard: protected::guarded(&config, &decisions, roots, git),
            mounts,
            command: Vec::new(),
            notes,
            decisions,
            presets,
            config,
        }))
    }
}

/// Decisions that follow from the policy alone. Credentials and layers are resolved by them, and
/// [`Decided::finish`] makes the plan of all three.
#[derive(Debug)]
pub struct Decided(Plan);

/// Inputs of a plan that do not follow from the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The command's variables, those of its credentials included.
    pub environment: Environment,
    /// Files that are shown in place of the host's, beside those of ruled commands.
    pub covers: Vec<Cover>,
    /// Store of each root of the plan's copy-on-write; empty where there is none.
    pub stores: Vec<Store>,
}

impl Decided {
    /// The configuration that was decided.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The mounts, parents first.
    pub fn mounts(&self) -> &[Mount] {
        &self.0.mounts
    }

    /// Writable places whose changes go into a layer.
    pub fn cow(&self) -> Option<&CopyOnWrite> {
        self.0.cow.as_ref()
    }

    /// The inputs of a plan that has neither credentials nor layers.
    pub fn inputs(&self, command: Vec<OsString>) -> Inputs {
        let environment = self.0.environment.clone();
        Inputs { command, environment, covers: Vec::new(), stores: Vec::new() }
    }

    /// Makes the plan. Nothing changes it afterwards.
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

/// Networks that only containers have would be left out silently otherwise.
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

/// The hosts that can be reached, where the network is by name.
fn egress(host: &Host, config: &Config) -> Result<Option<EgressPolicy>, PlanError> {
    // Without a network, the proxy is still reached: by the same way, on which nothing else passes.
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

/// The mount through which a path is seen: its own, or that of the nearest parent that has one.
/// The list is sorted by the bytes of the targets.
pub fn nearest<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let at =
        |path: &OsStr| mounts.binary_search_by(|mount| mount.target.as_os_str().cmp(path)).ok();
    upward(path).find_map(at).map(|index| &mounts[index])
}

/// Whether something is mounted below a path.
pub fn has_below(mounts: &[Mount], path: &Path) -> bool {
    // `/a-b` stands between `/a` and `/a/b`.
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
    let mut taken_back: Vec<Resolved> = Vec::new();
    for rule in &config.unruled {
        taken_back.extend(resolve(rule)?);
    }
    let mut kept: Vec<Resolved> = Vec::new();
    for rule in rules {
        let is_preset = matches!(rule.origin, Origin::Preset(_));
        let stays = |rule: &Resolved| {
            !is_preset
                || !taken_back
                    .iter()
                    .any(|back| back.access == rule.access && back.path == rule.path)
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

/// Variables are left out: their values are the user's own.
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
