//! Description of a sandbox's decisions, small enough to be stored inside it for `why`.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::{Mount, Plan, View};
use crate::specificity::Decision;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, Layer, Network, Origin, Tmp};
use sandbox_policy::network::EgressPolicy;
use sandbox_policy::path::{Kind, Matched, Resolved};

/// A path rule for a resolved path, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Access that it gives.
    pub access: Access,
    /// The pattern as it was written.
    pub pattern: String,
    /// The resolved path.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// Kind of match.
    pub matched: Matched,
    /// Layer that contains it.
    pub layer: Layer,
    /// Preset, file and line, or flag.
    pub origin: String,
}

impl Line {
    fn of(rule: &Resolved) -> Self {
        Self {
            access: rule.access,
            pattern: rule.pattern.clone(),
            path: rule.path.clone(),
            matched: rule.matched,
            layer: rule.origin.layer(),
            origin: rule.origin.to_string(),
        }
    }

    /// Returns the preset that it belongs to.
    pub(super) fn preset(&self) -> Option<&str> {
        self.origin.strip_prefix("preset ").filter(|_| self.layer == Layer::Builtin)
    }

    /// Returns true when `!PATTERN` can remove it. Rules derived from existing files cannot be removed so.
    pub(super) fn can_be_negated(&self) -> bool {
        self.layer > Layer::Builtin || self.preset().is_some_and(|name| !name.starts_with("@git"))
    }
}

/// A mount that no path rule causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// The path on the host.
    #[serde(with = "bytes")]
    pub source: PathBuf,
    /// The path inside.
    #[serde(with = "bytes")]
    pub target: PathBuf,
    /// Access inside.
    pub view: View,
    /// Origin of the mount.
    pub origin: String,
}

/// A value and its origin as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    /// Preset, file and line, or flag.
    pub origin: String,
}

impl<T> Said<T> {
    pub(super) fn new(value: T, origin: &Origin) -> Self {
        Self { value, origin: origin.to_string() }
    }
}

/// A command rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// The command.
    pub name: String,
    /// The rule.
    pub rule: Said<CommandRule>,
    /// The files that the name resolves to.
    #[serde(with = "list")]
    pub targets: Vec<PathBuf>,
    /// True when the enclosing sandbox has a rule for it, which stays in effect.
    pub outer: bool,
}

/// A variable that is not passed by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name. Its value is never stored.
    pub name: String,
    /// Its treatment.
    pub fate: Fate,
    /// Origin of the decision.
    pub origin: String,
}

/// Treatment of a variable that is not passed by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Hidden: it holds a credential.
    Credential,
    /// Hidden: it names a socket that is not available inside.
    Socket,
    /// Hidden: it makes programs run other code.
    Injecting,
    /// Set by the sandbox or the configuration.
    Set,
    /// Passed on request.
    Passed,
}

/// The decisions that the answers are based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The working directory.
    #[serde(with = "bytes")]
    pub cwd: PathBuf,
    /// Rules for existing paths: by path, the winner first.
    pub rules: Vec<Line>,
    /// Rules for paths that did not exist. Not stored inside.
    #[serde(skip)]
    pub missing: Vec<Line>,
    /// The directory whose overlay hides files that appear later, if an overlay can be mounted.
    #[serde(with = "list")]
    #[serde(rename = "veil")]
    pub home_overlay: Vec<PathBuf>,
    /// Directories whose changes are isolated in a layer.
    #[serde(with = "list", default)]
    #[serde(rename = "apart")]
    pub cow_roots: Vec<PathBuf>,
    /// Mounts that no path rule causes, and pins.
    pub mounts: Vec<Bind>,
    /// Hidden sockets.
    #[serde(with = "list")]
    pub sockets: Vec<PathBuf>,
    /// Files that the launcher replaces.
    #[serde(with = "list")]
    pub covers: Vec<PathBuf>,
    /// Files of which the sandbox has a private copy.
    #[serde(with = "list")]
    pub copies: Vec<PathBuf>,
    /// Command rules.
    pub commands: Vec<Ruling>,
    /// Network mode.
    pub network: Said<Network>,
    /// Allowed and denied hosts, if the network is limited to an allow list.
    #[serde(default)]
    pub egress: Option<EgressPolicy>,
    /// Kind of `/tmp`.
    pub tmp: Said<Tmp>,
    /// Variables that are hidden, set or passed on request.
    pub variables: Vec<Variable>,
}

impl Policy {
    /// Returns the decisions of a plan.
    pub fn of(plan: &Plan) -> Self {
        let missing = plan.decisions.iter().filter(|decision| is_missing(decision));
        let missing = missing.map(|decision| Line::of(&decision.rule)).collect();
        Self { missing, ..Self::of_what_exists(plan) }
    }

    /// Returns the decisions of a plan without rules for missing paths, which are most lines of the presets.
    fn of_what_exists(plan: &Plan) -> Self {
        let config = &plan.config;
        let commands = plan.runtime.commands.rules.iter().map(|ruled| Ruling {
            name: ruled.name.clone(),
            rule: Said::new(ruled.rule.value.clone(), &ruled.rule.origin),
            targets: ruled.targets.clone(),
            outer: ruled.outer,
        });
        let identity = plan.runtime.identity.iter().flat_map(crate::plan::Identity::files);
        Self {
            cwd: config.cwd.clone(),
            rules: lines(plan),
            missing: Vec::new(),
            home_overlay: plan.home_overlay.iter().map(|overlay| overlay.dir.clone()).collect(),
            cow_roots: plan
                .cow
                .iter()
                .flat_map(|cow| &cow.roots)
                .map(|root| root.target.clone())
                .collect(),
            mounts: plan.mounts.iter().filter(|mount| !is_rule(plan, mount)).map(bind).collect(),
            sockets: plan.sockets.clone(),
            covers: plan.runtime.commands.covers.iter().map(|cover| cover.target.clone()).collect(),
            copies: identity.map(|(path, _)| PathBuf::from(path)).collect(),
            commands: commands.collect(),
            network: Said::new(config.network.value, &config.network.origin),
            egress: plan.egress.clone(),
            tmp: Said::new(config.tmp.value, &config.tmp.origin),
            variables: variables(plan),
        }
    }

    /// Returns the rules for exactly this path, the winner first.
    pub(super) fn at(&self, path: &Path) -> &[Line] {
        let start = self.rules.partition_point(|line| line.path.as_path() < path);
        let count = self.rules[start..].iter().take_while(|line| line.path == path).count();
        &self.rules[start..start + count]
    }

    /// Sorts the rules into the order that [`Policy::at`] relies on.
    pub(super) fn sort(&mut self) {
        let strength = |line: &Line| (line.matched, line.access, line.layer);
        self.rules
            .sort_by(|a, b| (&a.path, Reverse(strength(a))).cmp(&(&b.path, Reverse(strength(b)))));
    }
}

/// Returns the content of `/run/agent-sandbox/policy` in the sandbox.
pub fn describe(plan: &Plan) -> Vec<u8> {
    // JSON can represent every value in it. An empty file would be read as a missing description.
    serde_json::to_vec(&Policy::of_what_exists(plan)).unwrap_or_default()
}

fn is_missing(decision: &Decision) -> bool {
    decision.rule.kind == Kind::Missing
}

/// Returns the rules for existing paths. Leaves out paths in a hidden directory, unless a rule makes them
/// visible again.
fn lines(plan: &Plan) -> Vec<Line> {
    let is_hidden = |rule: &Resolved| rule.access == Access::Exclude;
    let mut rules = Vec::new();
    for decision in plan.decisions.iter().filter(|decision| !is_missing(decision)) {
        let rule = &decision.rule;
        let above = || plan.decisions.above(&rule.path);
        if is_hidden(rule) && above().is_some_and(|above| is_hidden(&above.rule)) {
            continue;
        }
        rules.push(Line::of(rule));
        rules.extend(decision.beaten.iter().map(Line::of));
    }
    rules
}

fn is_rule(plan: &Plan, mount: &Mount) -> bool {
    let decision = plan.decisions.at(&mount.target);
    mount.view != View::Pin
        && mount.source == mount.target
        && decision.is_some_and(|decision| decision.rule.origin == mount.origin)
}

fn bind(mount: &Mount) -> Bind {
    let Mount { source, target, view, origin, .. } = mount;
    Bind { source: source.clone(), target: target.clone(), view: *view, origin: origin.to_string() }
}

fn variables(plan: &Plan) -> Vec<Variable> {
    use sandbox_policy::variable::Hidden;
    let hidden = plan.environment.hidden.iter().map(|variable| Variable {
        name: variable.name.clone(),
        fate: match variable.why {
            Hidden::Credential => Fate::Credential,
            Hidden::Socket => Fate::Socket,
            Hidden::Injecting => Fate::Injecting,
        },
        origin: variable.origin.to_string(),
    });
    let asked = plan.config.env.iter().map(|(name, rule)| Variable {
        name: name.clone(),
        fate: if rule.value.is_some() { Fate::Set } else { Fate::Passed },
        origin: rule.origin.to_string(),
    });
    let own = plan.environment.own.iter().filter(|(name, _)| !plan.config.env.contains_key(*name));
    let own = own.map(|(name, own)| Variable {
        name: name.clone(),
        fate: Fate::Set,
        origin: own.origin.to_string(),
    });
    hidden.chain(asked).chain(own).collect()
}

/// A path as JSON: text, or numbers if it is not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn of(path: &Path) -> Self {
        let bytes = || Self::Bytes(path.as_os_str().as_bytes().to_vec());
        path.to_str().map_or_else(bytes, |text| Self::Text(text.to_owned()))
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

pub(super) mod bytes {
    use super::{Deserialize, Deserializer, Name, Path, PathBuf, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        Name::of(path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Name::deserialize(from).map(Name::path)
    }
}

pub(super) mod list {
    use super::{Deserialize, Deserializer, Name, PathBuf, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|path| Name::of(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Name>::deserialize(from)?.into_iter().map(Name::path).collect())
    }
}
