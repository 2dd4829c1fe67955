//! Trust in project files. A project's file may widen the policy only if the user trusts it.
//!
//! [`widenings`] compares the values of a file with the layers below. `is_trusted`, [`record`], [`revoke`] and
//! [`list`] access the records of trusted files.

mod presets;
mod reach;
mod store;
#[cfg(test)]
mod tests;

pub use super::digest::Digest;
pub(crate) use store::is_trusted;
pub use store::{TrustError, TrustRecord, list, record, record_digest, revoke};

pub use super::widening::Widening;

use super::base_dirs::BaseDirs;
use super::file::unmarked;
use super::layer::Sourced;
use super::values::{Values, written};
use super::{Access, Config, ContainerNetwork, HostList, Network, PathRule, Tmp};
use crate::config::command_rule::CommandRule;
use crate::text::shown;

/// Returns the ways in which `values` would widen `before`, the layers below.
pub fn widenings(before: &Config, values: &Values, dirs: &BaseDirs) -> Vec<Widening> {
    let mut found = presets::widenings(&before.presets, &values.presets);
    found.extend(values.paths.iter().filter_map(|rule| path(before, rule, dirs)));
    found.extend(
        values.commands.iter().filter_map(|(name, rule)| command(before, name, rule, dirs)),
    );
    found.extend(switches(before, values));
    found.extend(hosts(before, values));
    found.extend(container_network(before, values));
    found.extend(backend(before, values));
    found.extend(lists(before, values));
    found.sort_by(|one, other| one.origin.cmp(&other.origin));
    found
}

fn path(before: &Config, rule: &Sourced<PathRule>, dirs: &BaseDirs) -> Option<Widening> {
    let PathRule { access, pattern, .. } = &rule.value;
    let key = format!("filesystem.{}", access.word());
    if pattern.starts_with('!') {
        // To remove `rw` restricts. To remove `ro` or `exclude` widens.
        let opens = *access != Access::Rw;
        return opens.then(|| {
            let detail = format!("removes {}", shown(unmarked(pattern)));
            Widening::new(key, detail, &rule.origin)
        });
    }
    if *access == Access::Exclude {
        return None;
    }
    let why = reach::opens(before, &rule.value, dirs)?;
    Some(Widening::new(key, format!("opens {}, {why}", shown(pattern)), &rule.origin))
}

/// Checks a command rule. Without trust, a rule may be added where there is none, and any rule may become `false`. A
/// wrapper may not replace another one, because their strictness cannot be compared.
fn command(
    before: &Config,
    name: &str,
    rule: &Sourced<CommandRule>,
    dirs: &BaseDirs,
) -> Option<Widening> {
    let key = format!("commands.{name}");
    let old = before.commands.get(name).map(|rule| &rule.value);
    let free = matches!(old, None | Some(CommandRule::Raw));
    let same = old == Some(&rule.value);
    match &rule.value {
        CommandRule::Block => None,
        // A script is readable inside, so its path must not be that of a private key.
        CommandRule::Script(script) if !same && reach::is_outside(script, dirs) => {
            let script = shown(&script.to_string_lossy());
            Some(Widening::new(key, format!("shows {script}, outside the project"), &rule.origin))
        }
        _ if free || same => None,
        new => {
            let old = old.map(written).unwrap_or_default();
            let detail = format!("replaces {} by {}", shown(&old), shown(&written(new)));
            Some(Widening::new(key, detail, &rule.origin))
        }
    }
}

/// Returns the single values that widen.
fn switches(before: &Config, values: &Values) -> Vec<Widening> {
    let mut found = Vec::new();
    if let Some(docker) =
        values.docker.as_ref().filter(|docker| docker.value && !before.docker.value)
    {
        found.push(Widening::new("docker", "shares the daemon's socket", &docker.origin));
    }
    if let Some(network) = &values.network {
        let opens = match network.value {
            Network::On => before.network.value > Network::On,
            // An earlier layer allowed hosts before a later one turned the network off.
            Network::Allow => before.network.value == Network::Off && before.hosts.allow_any(),
            Network::Off => false,
        };
        if opens {
            found.push(Widening::new("network", "turns the network on", &network.origin));
        }
    }
    if let Some(tmp) = &values.tmp
        && tmp.value == Tmp::Host
        && before.tmp.value == Tmp::Private
    {
        found.push(Widening::new("tmp", "shares the host's temporary files", &tmp.origin));
    }
    if let Some(cow) =
        values.cow.as_ref().filter(|cow| !cow.value.is_on() && before.cow.value.is_on())
    {
        found.push(Widening::new("cow", "writes straight into the tree", &cow.origin));
    }
    found
}

/// Checks the network of a container, which has none by default. The other modes are session keys, which widen anyway.
fn container_network(before: &Config, values: &Values) -> Option<Widening> {
    let network = values.session.network.as_ref()?;
    let mut session = before.session.clone();
    session.apply(values.session.clone());
    let mounts = before.mounts.iter().chain(values.mounts.iter().map(|(_, mount)| mount));
    let mounts: Vec<_> = mounts.cloned().collect();
    let is_new = before.session.network.as_ref().is_none_or(|old| old.value != network.value);
    let opens = network.value == ContainerNetwork::Host && is_new;
    (opens && session.backend(&mounts).is_container())
        .then(|| Widening::new("network", "gives a container the host's network", &network.origin))
}

/// Checks the backend. A file that leaves it open does not ask for a container.
fn backend(before: &Config, values: &Values) -> Option<Widening> {
    let (old, new) = (before.session.backend.as_ref()?, values.session.backend.as_ref()?);
    (old.value.is_container() && !new.value.is_container())
        .then(|| Widening::new("backend", "replaces a container by a local sandbox", &new.origin))
}

/// Checks host lists. If all hosts could be reached before, a list only restricts.
fn hosts(before: &Config, values: &Values) -> Vec<Widening> {
    if before.network.value == Network::On {
        return Vec::new();
    }
    let is_new = |list: HostList, line: &str| {
        before.network.value == Network::Off || !before.hosts.allow(list, line)
    };
    let widening = |(list, line): &(HostList, Sourced<String>)| {
        let text = line.value.as_str();
        let detail = match (list, text.starts_with('!')) {
            (HostList::Denied, true) => format!("removes {}", shown(unmarked(text))),
            (HostList::Allowed | HostList::Private, false) if is_new(*list, text) => {
                format!("allows {}", shown(text))
            }
            _ => return None,
        };
        Some(Widening::new(format!("network.{}", list.key()), detail, &line.origin))
    };
    values.hosts.iter().filter_map(widening).chain(upload_limit(before, values)).collect()
}

/// Checks the upload limit. Without trust, it may only be lowered.
fn upload_limit(before: &Config, values: &Values) -> Option<Widening> {
    let (old, new) = (before.upload_limit.as_ref()?, values.upload_limit.as_ref()?);
    let detail = || format!("raises the limit from {} to {} bytes", old.value, new.value);
    (new.value > old.value).then(|| Widening::new("network.upload_limit", detail(), &new.origin))
}

/// Returns the widenings of lists and maps in which every line widens.
fn lists(before: &Config, values: &Values) -> Vec<Widening> {
    let mut found = Vec::new();
    for socket in values.sockets.iter().filter(|socket| !socket.value.starts_with('!')) {
        let detail = format!("opens {}", shown(&socket.value));
        found.push(Widening::new("sockets", detail, &socket.origin));
    }
    for (key, mount) in &values.mounts {
        let host = shown(&mount.value.host.to_string_lossy());
        let inside = shown(&mount.value.target.to_string_lossy());
        let detail = format!("shows {host} as {inside}, {}", mount.value.access.word());
        found.push(Widening::new(*key, detail, &mount.origin));
    }
    for (name, value) in &values.env {
        if before.env.get(name).is_some_and(|old| old.value == value.value) {
            continue;
        }
        let verb = if value.value.is_some() { "sets" } else { "passes" };
        found.push(Widening::new("env", format!("{verb} {}", shown(name)), &value.origin));
    }
    for (name, secret) in &values.secrets {
        if before.secrets.get(name).is_some_and(|old| old.value == secret.value) {
            continue;
        }
        let detail = format!("uses a secret as {}", shown(secret.value.env_var.as_str()));
        found.push(Widening::new(format!("secrets.{name}"), detail, &secret.origin));
    }
    for (key, _) in values.session_keys.iter().filter(|(_, widens)| *widens) {
        found.push(Widening::new(key.value.as_str(), "reaches beyond the sandbox", &key.origin));
    }
    found
}
