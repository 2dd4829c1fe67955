//! The decision: mounts, environment, network, command. Plain data, comparable, printable.

mod state;
mod ground;
mod mounts;
mod links;
mod environment;
mod sockets;
mod proc;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_linux::seccomp::CgroupNamespaces;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{Access, Config, ConfigError, Layer, Origin, PathRule, Request, Sourced};
use crate::guard::Known;
use crate::host::Host;
use crate::path::resolve::{Place, ResolveError, Resolver};
use crate::path::{Kind, Matched, Resolved};
use crate::preset::git::{GitError, GitProtection};
use crate::preset::{self, Presets};
use crate::specificity::{Decisions, decide};
use crate::wrapper::{self, Commands, WrapperError};

pub use environment::{Environment, HiddenVariable};
pub use ground::Ground;
pub use proc::Proc;
pub(crate) use sockets::docker_places;

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
    /// The home directory, when hiding in it can be done by one overlay, and what else that
    /// overlay hides: paths that do not exist yet.
    pub veil: Option<Veil>,
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

/// Hiding by one overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Veil {
    /// The directory, free of symlinks.
    pub dir: PathBuf,
    /// Paths below it that must stay invisible should they appear.
    pub missing: Vec<PathBuf>,
    /// Files below it that are writable.
    pub files: Vec<PathBuf>,
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
    /// What is left for `why` inside; empty until [`Plan::describe`].
    #[serde(skip)]
    pub policy: Vec<u8>,
}

impl Plan {
    /// Leaves a description of this plan in the sandbox, so that `why` has an answer inside.
    pub fn describe(&mut self) {
        self.runtime.policy = crate::why::describe(self);
    }
}

/// The user and group that root becomes inside.
pub const AGENT_ID: &str = "1000";

/// Root's commands run as `agent`, an ordinary user inside; what they write is root's outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    #[serde(skip)]
    passwd: Vec<u8>,
    #[serde(skip)]
    group: Vec<u8>,
}

impl Identity {
    /// The user database with `agent` in front; `None` unless root asks.
    fn of(host: &Host) -> Option<Self> {
        if host.uid != 0 {
            return None;
        }
        let home = host.home.as_deref().unwrap_or(Path::new("/"));
        let with = |line: String, file: &str| {
            let mut content = line.into_bytes();
            content.extend(std::fs::read(file).unwrap_or_default());
            content
        };
        let passwd = format!("agent:x:{AGENT_ID}:{AGENT_ID}:agent:{}:/bin/sh\n", home.display());
        Some(Self {
            passwd: with(passwd, "/etc/passwd"),
            group: with(format!("agent:x:{AGENT_ID}:\n"), "/etc/group"),
        })
    }

    /// The files that it stands in for.
    pub fn files(&self) -> [(&'static str, &[u8]); 2] {
        [("/etc/passwd", &self.passwd), ("/etc/group", &self.group)]
    }
}

/// A plan that cannot be made.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A path rule.
    #[error(transparent)]
    Path(#[from] ResolveError),
    /// A command rule.
    #[error(transparent)]
    Wrapper(#[from] WrapperError),
    /// A repository that cannot be protected.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A rule on a place that every sandbox makes anew.
    #[error("{origin}: no rule can be set on `{}`, which every sandbox has its own of", path.display())]
    Reserved {
        /// The place.
        path: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// The working directory cannot be seen.
    #[error("the working directory `{}` is hidden by {origin}", cwd.display())]
    CwdHidden {
        /// The directory.
        cwd: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// The working directory is the shared temporary directory.
    #[error("the working directory is `/tmp`, which is private to each sandbox")]
    CwdIsTmp,
    /// `docker = true` without a daemon.
    #[error("{origin} asks for Docker, but no daemon's socket was found (looked at {})", looked.join(", "))]
    NoDocker {
        /// The setting.
        origin: Origin,
        /// The places looked at.
        looked: Vec<String>,
    },
    /// A socket that is to be opened is not there.
    #[error("{origin}: `{path}` is no socket")]
    NoSocket {
        /// The setting.
        origin: Origin,
        /// What was asked for.
        path: String,
    },
    /// A bind mount that has no source or no place.
    #[error("{origin}: cannot mount `{}` at `{}`: {why}", host.display(), target.display())]
    Mount {
        /// The setting.
        origin: Origin,
        /// The path on the host.
        host: PathBuf,
        /// The path inside.
        target: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// The home directory of `@base` is not there.
    #[error("the home directory `{}` is not a directory", .0.display())]
    Home(PathBuf),
}

impl PlanError {
    /// The exit code that stands for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(error) => error.exit_code(),
            _ => 125,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Wrapper(error) => error.hint(),
            Self::Git(error) => error.hint(),
            Self::CwdHidden { origin, .. } => {
                Some(format!("pass `--cwd`, or drop the rule from {origin}"))
            }
            Self::CwdIsTmp => Some("work in a directory below it, or set `tmp = \"host\"`".into()),
            Self::NoDocker { .. } => {
                Some("start the daemon, or set `DOCKER_HOST` to its socket".into())
            }
            Self::Path(ResolveError {
                error: crate::path::pattern::PatternError::NoHome(_),
                ..
            }) => Some(
                "set `HOME`, or put `\"!@base\"` into `filesystem.presets` of your configuration"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// The whole product on one screen: what was asked, what it means, what will be done.
pub fn plan(host: &Host, request: &Request) -> Result<Plan, PlanError> {
    let config = crate::config::load(host, request)?;
    let draft = Draft::of(host, config)?;
    let known = crate::guard::known(host, &draft.roots());
    draft.finish(host, &known, request.command.clone())
}

/// A configuration whose path rules are resolved. What an earlier run left in the writable
/// places is looked at now, before anything is decided by what exists there.
#[derive(Debug)]
pub struct Draft {
    config: Config,
    presets: Presets,
    home: Option<Place>,
    rules: Vec<Resolved>,
    resolver: Resolver,
    notes: Vec<String>,
}

impl Draft {
    /// Every `@name` is gone, and every path absolute and real.
    pub fn of(host: &Host, config: Config) -> Result<Self, PlanError> {
        let (presets, rules) = preset::expand(host, &config);
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
        mounts::writable_roots(&self.rules)
    }

    /// One view per path, one stand-in per ruled command: the plan.
    pub fn finish(
        self,
        host: &Host,
        known: &Known,
        command: Vec<OsString>,
    ) -> Result<Plan, PlanError> {
        let Self { config, presets, home, mut rules, mut resolver, mut notes } = self;
        let roots = mounts::writable_roots(&rules);
        let commands = wrapper::resolve(host, &config)?;
        let git = mounts::git(host, &presets, &roots, known, &mut rules)?;
        mounts::protect_ourselves(host, &config, &commands, &mut resolver, &mut rules);
        let decisions = decide(rules);
        let mounts = mounts::build(host, &config, &decisions, &commands, &git, &mut resolver)?;
        notes.extend(lost_flags(&decisions));
        notes.extend(read_only_cwd(&presets, &config.cwd, &decisions));
        notes.extend(skipped_keys(&config));
        let opened = sockets::opened(host, &config, &mut resolver)?;
        Ok(Plan {
            sockets: sockets::listening(&mounts, &opened),
            veil: mounts::veil(host, &presets, &decisions, &mounts, home.as_ref(), &resolver),
            root_writable: decisions
                .at(Path::new("/"))
                .is_some_and(|d| d.rule.access == Access::Rw),
            watched: mounts::watched(&mounts),
            top_level: mounts::top_level(&mounts),
            cgroups: cgroup_namespaces(host),
            runtime: Runtime {
                binary: host.exe.clone(),
                nested: host.inside,
                commands,
                user_dir: format!("/run/user/{}", host.uid).into(),
                identity: Identity::of(host),
                proc: Proc::of(host),
                policy: Vec::new(),
            },
            environment: environment::decide(host, &config, &presets, &opened),
            guard: mounts::guarded(&config, &decisions, roots, git),
            mounts,
            command,
            notes,
            decisions,
            presets,
            config,
        })
    }
}

pub(crate) fn cgroup_namespaces(host: &Host) -> CgroupNamespaces {
    if host.uid == 0 || sandbox_linux::file::owns_cgroup() {
        return CgroupNamespaces::Refused;
    }
    CgroupNamespaces::Allowed
}

fn skipped_keys(config: &Config) -> impl Iterator<Item = String> {
    config.skipped.iter().map(|key| {
        format!("`{}` ({}) is for container sessions and has no effect here", key.value, key.origin)
    })
}

/// The mount through which a path is seen: its own, or that of the nearest parent that has one.
/// The list is sorted, parents first.
pub fn nearest<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let at = |path: &Path| mounts.binary_search_by(|mount| mount.target.as_path().cmp(path)).ok();
    path.ancestors().find_map(at).map(|index| &mounts[index])
}

/// Whether something is mounted below a path.
pub fn has_below(mounts: &[Mount], path: &Path) -> bool {
    let after = mounts.partition_point(|mount| mount.target.as_path() <= path);
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
    kept.iter().find(|rule| ground::is_reserved(rule)).map_or(Ok(()), |rule| {
        Err(PlanError::Reserved { path: rule.path.clone(), origin: rule.origin.clone() })
    })?;
    Ok(kept)
}

/// A working directory that cannot be written is worth a line, unless the user asked for it.
fn read_only_cwd(presets: &Presets, cwd: &Path, decisions: &Decisions) -> Option<String> {
    let here = cwd.display();
    if cwd == Path::new("/") && decisions.at(cwd).is_none() {
        return Some(format!(
            "the working directory is `{here}` and stays read-only; `--rw /` makes the whole machine writable"
        ));
    }
    let rule = &decisions.at(cwd).filter(|_| presets.has("@base"))?.rule;
    let by_preset = matches!(rule.origin, Origin::Preset(_)) && rule.access == Access::Ro;
    by_preset.then(|| {
        format!(
            "the working directory `{here}` is read-only ({}); `--ro '!{}'` opens it",
            rule.origin, rule.pattern
        )
    })
}

/// A flag that changes nothing because a stricter rule holds is worth a line.
fn lost_flags(decisions: &Decisions) -> Vec<String> {
    let lost = |decision: &crate::specificity::Decision| {
        let winner = &decision.rule;
        let flag = decision.beaten.iter().find(|rule| {
            rule.origin.layer() == Layer::Flags
                && rule.access < winner.access
                && rule.matched == Matched::Exact
        })?;
        let back = format!("--{} '!{}'", winner.access.word(), winner.pattern);
        Some(format!(
            "{} has no effect: {} `{}` from {} is stricter; `{back}` takes it back",
            flag.origin,
            winner.access.word(),
            winner.pattern,
            winner.origin
        ))
    };
    decisions.iter().filter_map(lost).collect()
}

fn texts<S: serde::Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

/// Variables are left out: their values are the user's own.
fn settings<S: serde::Serializer>(config: &Config, serializer: S) -> Result<S::Ok, S::Error> {
    let Config { cwd, network, docker, tmp, launcher, .. } = config;
    let mut map = serializer.serialize_struct("Config", 5)?;
    map.serialize_field("cwd", cwd)?;
    map.serialize_field("network", network)?;
    map.serialize_field("docker", docker)?;
    map.serialize_field("tmp", tmp)?;
    map.serialize_field("launcher", launcher)?;
    map.end()
}
