//! Merging of layers into one configuration: lists are joined, maps merge by key, and a later single value wins.

use std::collections::BTreeMap;

use super::base_dirs::BaseDirs;
use super::error::ConfigError;
use super::file::{EnvName, unmarked};
use super::layer::{Origin, Sourced};
use super::values::Values;
use super::{Config, Cow, CowEngine, Hosts, Launcher, Network, PathRule, SessionConfig, Tmp};
use crate::config::command_rule::{Builtin, CommandRule};

/// Returns the built-in layer.
pub(super) fn builtin(dirs: &BaseDirs) -> Config {
    fn default<T>(value: T) -> Sourced<T> {
        Sourced::new(value, Origin::Default)
    }
    let git = default(CommandRule::Builtin(Builtin::Git));
    Config {
        cwd: dirs.cwd.clone(),
        repo: None,
        presets: vec![default("@all".to_owned())],
        paths: Vec::new(),
        unruled: Vec::new(),
        commands: BTreeMap::from([("git".to_owned(), git)]),
        network: default(Network::On),
        hosts: Hosts::default(),
        upload_limit: None,
        docker: default(false),
        tmp: default(Tmp::Private),
        launcher: default(Launcher::Binary),
        cow: default(Cow::OFF),
        sockets: Vec::new(),
        mounts: Vec::new(),
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        session: SessionConfig::default(),
        skipped: Vec::new(),
        files: Vec::new(),
        loaded: Vec::new(),
    }
}

/// Checks that every variable belongs to only one secret.
pub(super) fn check_secrets(config: &Config) -> Result<(), ConfigError> {
    let mut carried: BTreeMap<&str, (&String, &Origin)> = BTreeMap::new();
    for (name, secret) in &config.secrets {
        let address = secret.value.base_url_var.iter();
        for variable in address.chain([&secret.value.env_var]).map(EnvName::as_str) {
            if let Some((other, origin)) = carried.insert(variable, (name, &secret.origin)) {
                return Err(ConfigError::SharedVariable {
                    variable: variable.to_owned(),
                    secrets: Box::new([
                        (other.clone(), origin.clone()),
                        (name.clone(), secret.origin.clone()),
                    ]),
                });
            }
        }
    }
    Ok(())
}

/// Merges a later layer.
pub(super) fn apply(config: &mut Config, values: Values, dirs: &BaseDirs) {
    config.presets.extend(values.presets);
    apply_paths(config, values.paths, dirs);
    apply_sockets(config, values.sockets, dirs);
    config.commands.extend(values.commands);
    config.mounts.extend(values.mounts.into_iter().map(|(_, mount)| mount));
    config.env.extend(values.env);
    config.secrets.extend(values.secrets);
    replace(&mut config.network, values.network);
    config.hosts.apply(values.hosts);
    config.upload_limit = values.upload_limit.or(config.upload_limit.take());
    replace(&mut config.docker, values.docker);
    replace(&mut config.tmp, values.tmp);
    replace(&mut config.launcher, values.launcher);
    apply_cow(config, values.cow);
    config.session.apply(values.session);
    config.skipped.extend(values.session_keys.into_iter().map(|(key, _)| key));
}

fn replace<T>(current: &mut T, later: Option<T>) {
    if let Some(later) = later {
        *current = later;
    }
}

/// Merges copy-on-write. A later `on` keeps the engine that an earlier layer chose.
fn apply_cow(config: &mut Config, later: Option<Sourced<Cow>>) {
    let Some(mut later) = later else { return };
    if later.value.engine == CowEngine::On && config.cow.value.is_on() {
        later.value.engine = config.cow.value.engine;
    }
    config.cow = later;
}

/// Merges path rules. `!PATH` removes rules of earlier layers, but not of the same layer: within a layer, order does
/// not matter.
fn apply_paths(config: &mut Config, rules: Vec<Sourced<PathRule>>, dirs: &BaseDirs) {
    let (removals, additions): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| rule.value.pattern.starts_with('!'));
    for Sourced { value, origin } in removals {
        let removal = PathRule { pattern: unmarked(&value.pattern).to_owned(), ..value };
        let gone = dirs.spelling_of(&removal);
        let same = |rule: &Sourced<PathRule>| {
            rule.value.access == removal.access && dirs.spelling_of(&rule.value) == gone
        };
        config.paths.retain(|rule| !same(rule));
        // It may refer to a line of a preset. Presets are expanded later.
        config.unruled.push(Sourced::new(removal, origin));
    }
    config.paths.extend(additions);
}

fn apply_sockets(config: &mut Config, sockets: Vec<Sourced<String>>, dirs: &BaseDirs) {
    let (removals, additions): (Vec<_>, Vec<_>) =
        sockets.into_iter().partition(|socket| socket.value.starts_with('!'));
    for removal in removals {
        let gone = dirs.spelling(unmarked(&removal.value));
        config.sockets.retain(|socket| dirs.spelling(&socket.value) != gone);
    }
    config.sockets.extend(additions);
}
