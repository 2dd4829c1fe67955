//! Which keys are carried out, and by whom: the ones that nobody carries out yet are refused.

use super::file::{At, Backend, Dockerd, FileConfig, Position, Problem};

/// A key that the local sandbox does not carry out.
pub(super) struct SessionKey {
    pub(super) key: &'static str,
    /// Whether it opens something, so that a project's file needs trust for it.
    pub(super) widens: bool,
    /// Where it asks for something. A value that asks for nothing, such as `services.dockerd = false`, is no matter.
    pub(super) at: fn(&FileConfig) -> Option<Position>,
}

/// Keys that are refused, and what they wait for. The part that carries a key out takes its line away;
/// a key of sessions is from then on skipped by the local sandbox.
pub const NOT_YET: &[(&str, &str)] = &[("proxy", "a session finds its proxy by itself")];

pub(super) const SESSION_KEYS: &[SessionKey] = &[
    SessionKey {
        key: "network",
        widens: true,
        at: |file| at_if(file.network.as_ref(), |text| text.local().is_none()),
    },
    SessionKey {
        key: "backend",
        widens: false,
        at: |file| at_if(file.backend.as_ref(), |name| *name != Backend::Bwrap),
    },
    SessionKey { key: "image", widens: true, at: |file| at(file.image.as_ref()) },
    SessionKey { key: "runtime", widens: true, at: |file| at(file.runtime.as_ref()) },
    SessionKey { key: "agent", widens: false, at: |file| at(file.agent.as_ref()) },
    SessionKey { key: "env_file", widens: true, at: |file| at(file.env_file.as_ref()) },
    SessionKey { key: "resources", widens: true, at: |file| at(file.resources.as_ref()) },
    SessionKey { key: "workspace", widens: true, at: |file| at(file.workspace.as_ref()) },
    SessionKey { key: "home", widens: true, at: |file| at(file.home.as_ref()) },
    SessionKey {
        key: "services",
        widens: true,
        at: |file| at_if(file.services.as_ref(), |services| services.dockerd != Dockerd::Off),
    },
    SessionKey { key: "proxy", widens: true, at: |file| at(file.proxy.as_ref()) },
    SessionKey {
        key: "host_commands",
        widens: true,
        at: |file| at_if(file.host_commands.as_ref(), |bridge| bridge.enabled),
    },
];

fn at<T>(value: Option<&At<T>>) -> Option<Position> {
    at_if(value, |_| true)
}

fn at_if<T>(value: Option<&At<T>>, asks: impl Fn(&T) -> bool) -> Option<Position> {
    value.filter(|at| asks(&at.value)).map(|at| at.position)
}

/// The session keys that a file sets, in the order of the table.
pub(super) fn asked(
    file: &FileConfig,
) -> impl Iterator<Item = (&'static SessionKey, Position)> + '_ {
    SESSION_KEYS.iter().filter_map(|row| Some((row, (row.at)(file)?)))
}

/// The topmost key of a file that nothing carries out.
pub(super) fn not_yet(file: &FileConfig) -> Option<(Position, Problem)> {
    let refused = asked(file).filter_map(|(row, position)| {
        let (key, reason) = *NOT_YET.iter().find(|(key, _)| *key == row.key)?;
        Some((position, Problem::NotYet { key, reason }))
    });
    refused.min_by_key(|(position, _)| *position)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::{Syntax, parse};

    #[test]
    fn not_yet_names_only_keys_of_the_table() {
        for (key, _) in NOT_YET {
            assert!(SESSION_KEYS.iter().any(|row| row.key == *key), "{key}");
        }
    }

    #[test]
    fn not_yet_refuses_a_key_when_nobody_carries_it_out() {
        let read = |text| parse(text, Syntax::Toml, Path::new("sandbox.toml")).unwrap();
        let refused = not_yet(&read("proxy = { addr = ':1' }"));
        assert!(matches!(refused, Some((_, Problem::NotYet { key: "proxy", .. }))));
        for text in ["network = 'bridge'", "image = 'x'", "host_commands.enabled = true"] {
            assert_eq!(not_yet(&read(text)), None, "{text}");
        }
    }
}
