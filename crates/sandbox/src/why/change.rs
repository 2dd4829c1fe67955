//! Changes that a user can make to get another answer. Each is tried before it is suggested.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::judge::State;
use super::policy::{Bind, Line, Policy};
use crate::plan::View;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, Config, Layer, Network, Origin, Request, Sourced, Tmp};
use sandbox_policy::network::HostRule;
use sandbox_policy::path::Matched;

/// A change to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Result of the change.
    pub to: &'static str,
    /// Flags, one word each. Empty when only a file can express the change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// The equivalent in a configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Flags to remove, or lines to edit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edit: Vec<String>,
}

/// One difference to the flags or the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// `--exclude '!PATTERN'`.
    Negate(Line),
    /// Removal of a flag.
    Drop(Line),
    /// `--rw PATH`: the path as it is typed, and the resolved path.
    Add(Access, String, PathBuf),
    /// `!@git`.
    PresetOff(String),
    /// `mode` of an entry of `mounts`, by origin.
    Mode(String, Access),
    /// `tmp = "host"`.
    HostTmp,
    /// An entry of `sockets`.
    Socket(String, PathBuf),
    /// `--docker`.
    Docker,
    /// `--cmd NAME=RULE`.
    Command(String, CommandRule),
    /// `--network`.
    Network(Network),
    /// `--allow-host NAME`.
    AllowHost(String),
    /// A line of `denied_hosts`.
    DenyHost(String),
    /// `--env NAME`.
    Env(String),
}

impl Step {
    /// Returns the step that disables a line, or `None` when no step can.
    pub(super) fn against(line: &Line) -> Option<Self> {
        match line.layer {
            Layer::Flags => Some(Self::Drop(line.clone())),
            _ if line.can_be_negated() => Some(Self::Negate(line.clone())),
            _ => line.preset().map(|name| Self::PresetOff(name.to_owned())),
        }
    }

    /// Applies the step to the flags.
    pub(super) fn apply_to_request(&self, request: &mut Request) {
        match self {
            Self::Negate(line) => {
                request.paths.push((line.access, format!("!{}", line.pattern)));
            }
            Self::Drop(line) => request
                .paths
                .retain(|(access, text)| *access != line.access || *text != line.pattern),
            Self::Add(access, text, _) => request.paths.push((*access, text.clone())),
            Self::Docker => request.docker = Some(true),
            Self::Command(name, rule) => request.commands.push((name.clone(), rule.clone())),
            Self::Network(network) => {
                request.network = Some(*network);
                request.hosts.clear();
            }
            Self::AllowHost(host) => {
                request.network = None;
                request.hosts.push(host.clone());
            }
            Self::Env(name) => request.env.push((name.clone(), None)),
            Self::PresetOff(_)
            | Self::Mode(..)
            | Self::HostTmp
            | Self::Socket(..)
            | Self::DenyHost(_) => {}
        }
    }

    /// Applies the step to the configuration, if no flag can express it.
    pub(super) fn apply_to_config(&self, config: &mut Config) {
        let origin = || Origin::Default;
        match self {
            Self::PresetOff(name) => {
                config.presets.push(Sourced::new(format!("!{name}"), origin()));
            }
            Self::HostTmp => config.tmp = Sourced::new(Tmp::Host, origin()),
            Self::Socket(text, _) => config.sockets.push(Sourced::new(text.clone(), origin())),
            Self::DenyHost(host) => config.hosts.deny(host),
            Self::Mode(at, access) => {
                let mounts = config.mounts.iter_mut();
                mounts
                    .filter(|mount| mount.origin.to_string() == *at)
                    .for_each(|mount| mount.value.access = *access);
            }
            _ => {}
        }
    }

    /// Applies the step to the description of a sandbox.
    pub(super) fn apply_to_policy(&self, policy: &mut Policy) {
        match self {
            Self::Negate(line) => policy.rules.retain(|rule| !is_negated(rule, line)),
            Self::Drop(line) => policy.rules.retain(|rule| rule != line),
            Self::Add(access, text, path) => {
                policy.rules.push(flag(*access, text, path));
                policy.sort();
            }
            Self::PresetOff(name) => policy.rules.retain(|rule| rule.preset() != Some(name)),
            Self::Mode(at, access) => {
                let view = if *access == Access::Rw { View::ReadWrite } else { View::ReadOnly };
                let mounts = policy.mounts.iter_mut().filter(|mount| mount.origin == *at);
                mounts.for_each(|mount| mount.view = view);
            }
            Self::HostTmp => policy.tmp.value = Tmp::Host,
            Self::Socket(_, path) => {
                policy.sockets.retain(|socket| socket != path);
                let (source, target) = (path.clone(), path.clone());
                let origin = String::new();
                policy.mounts.push(Bind { source, target, view: View::ReadWrite, origin });
            }
            // Only the host knows the socket of the daemon.
            Self::Docker => {}
            Self::Command(name, rule) => {
                policy.covers.clear();
                let rulings = policy.commands.iter_mut().filter(|ruling| ruling.name == *name);
                rulings.for_each(|ruling| ruling.rule.value = rule.clone());
                let covered = policy.commands.iter().filter(|r| r.rule.value != CommandRule::Raw);
                policy.covers = covered.flat_map(|ruling| ruling.targets.clone()).collect();
            }
            Self::Network(network) => policy.network.value = *network,
            Self::AllowHost(host) => {
                policy.network.value = Network::Allow;
                policy.egress.get_or_insert_default().allowed.extend(host_rule(host));
            }
            Self::DenyHost(host) => {
                policy.egress.get_or_insert_default().denied.extend(host_rule(host));
            }
            Self::Env(name) => policy.variables.retain(|variable| variable.name != *name),
        }
    }

    fn flags(&self) -> Vec<String> {
        match self {
            Self::Negate(line) => {
                vec![format!("--{}", line.access.word()), format!("!{}", line.pattern)]
            }
            Self::Add(access, text, _) => vec![format!("--{}", access.word()), text.clone()],
            Self::Docker => vec!["--docker".into()],
            Self::Command(name, rule) => {
                vec!["--cmd".into(), format!("{name}={}", rule_text(rule))]
            }
            Self::Network(Network::On) => vec!["--network".into()],
            Self::Network(Network::Off) => vec!["--network=false".into()],
            Self::Network(Network::Allow) => vec!["--network=allow".into()],
            Self::AllowHost(host) => vec!["--allow-host".into(), host.clone()],
            Self::Env(name) => vec!["--env".into(), name.clone()],
            Self::Drop(_)
            | Self::PresetOff(_)
            | Self::Mode(..)
            | Self::HostTmp
            | Self::DenyHost(_)
            | Self::Socket(..) => Vec::new(),
        }
    }

    /// Returns the keys and the value for a configuration file, or `None` when no file can express the step.
    fn key(&self) -> Option<(Vec<String>, Value)> {
        let path = |access: Access| vec!["filesystem".to_owned(), access.word().to_owned()];
        Some(match self {
            // Only a flag can negate a line of the project's file.
            Self::Negate(line) if line.layer >= Layer::Project => return None,
            Self::Negate(line) => (path(line.access), json!([format!("!{}", line.pattern)])),
            Self::Add(access, text, _) => (path(*access), json!([text])),
            Self::PresetOff(name) => {
                (vec!["filesystem".into(), "presets".into()], json!([format!("!{name}")]))
            }
            Self::HostTmp => (vec!["tmp".into()], json!("host")),
            Self::Socket(text, _) => (vec!["sockets".into()], json!([text])),
            Self::Docker => (vec!["docker".into()], json!(true)),
            Self::Command(name, rule) => (vec!["commands".into(), name.clone()], json!(rule)),
            Self::Network(Network::Allow) => (vec!["network".into()], json!("allow")),
            Self::Network(network) => (vec!["network".into()], json!(*network == Network::On)),
            Self::AllowHost(host) => {
                (vec!["network".into(), "allowed_hosts".into()], json!([host]))
            }
            Self::DenyHost(host) => (vec!["network".into(), "denied_hosts".into()], json!([host])),
            Self::Env(name) => (vec!["env".into(), name.clone()], json!(true)),
            Self::Drop(_) | Self::Mode(..) => return None,
        })
    }

    fn edit(&self) -> Option<String> {
        match self {
            Self::Drop(line) => {
                Some(format!("remove the flag `--{} {}`", line.access.word(), line.pattern))
            }
            Self::Negate(line) if line.layer >= Layer::Project => {
                Some(format!("edit {}", line.origin))
            }
            Self::Mode(at, access) => Some(format!("set the mode to `{}` in {at}", access.word())),
            _ => None,
        }
    }
}

/// Returns true when `!PATH` removes a rule: rules of presets for that path, and rules of files with the same pattern.
fn is_negated(rule: &Line, by: &Line) -> bool {
    let same = rule.access == by.access && rule.path == by.path && rule.layer < Layer::Flags;
    same && rule.can_be_negated() && (rule.layer == Layer::Builtin || rule.pattern == by.pattern)
}

fn flag(access: Access, text: &str, path: &Path) -> Line {
    Line {
        access,
        pattern: text.to_owned(),
        path: path.to_path_buf(),
        matched: Matched::Exact,
        layer: Layer::Flags,
        origin: format!("flag --{} {text}", access.word()),
    }
}

/// Returns the rule for a host pattern.
fn host_rule(text: &str) -> Option<HostRule> {
    Some(HostRule::new(text.parse().ok()?, format!("flag --allow-host {text}")))
}

/// Returns a command rule as a user types it.
pub(super) fn rule_text(rule: &CommandRule) -> String {
    match json!(rule) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns the word for a state.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Writable => "writable",
        State::ReadOnly => "read-only",
        State::Hidden => "hidden",
        State::Own => "own",
    }
}

impl Change {
    /// Creates a change from steps. Returns `None` when neither flags nor files nor edits can express all of them.
    pub(super) fn of(to: &'static str, steps: &[Step]) -> Option<Self> {
        let flags: Option<Vec<String>> = steps
            .iter()
            .filter(|step| !matches!(step, Step::Drop(_)))
            .map(|step| Some(step.flags()).filter(|flags| !flags.is_empty()))
            .collect::<Option<Vec<_>>>()
            .map(|flags| flags.concat());
        let keys: Option<Vec<_>> = steps.iter().map(Step::key).collect();
        let config = keys.filter(|keys| !keys.is_empty()).map(merged);
        let edit: Vec<String> = steps.iter().filter_map(Step::edit).collect();
        let flags = flags.unwrap_or_default();
        let any = !flags.is_empty() || config.is_some() || !edit.is_empty();
        any.then_some(Self { to, flags, config, edit })
    }
}

/// Returns one object with all keys. Lists of the same key are concatenated.
fn merged(keys: Vec<(Vec<String>, Value)>) -> Value {
    let mut root = Value::Object(Map::new());
    for (names, value) in keys {
        let mut at = &mut root;
        for name in names {
            if at.is_null() {
                *at = json!({});
            }
            at = &mut at[name];
        }
        match (at.as_array_mut(), value) {
            (Some(list), Value::Array(more)) => list.extend(more),
            (_, value) => *at = value,
        }
    }
    root
}
