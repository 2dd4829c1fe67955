//! Keys that only sessions use.

use super::file::{At, BackendKind, Dockerd, FileConfig, Position};

/// A key without effect on the local sandbox.
pub(super) struct SessionKey {
    pub(super) key: &'static str,
    /// True if it widens the policy, so that a project's file needs trust for it.
    pub(super) widens: bool,
    /// Returns its position if it is set. A value without effect, such as `services.dockerd = false`, does not count.
    pub(super) at: fn(&FileConfig) -> Option<Position>,
}

pub(super) const SESSION_KEYS: &[SessionKey] = &[
    SessionKey {
        key: "network",
        widens: true,
        at: |file| at_if(file.network.as_ref(), |text| text.local().is_none()),
    },
    SessionKey {
        key: "backend",
        widens: false,
        at: |file| at_if(file.backend.as_ref(), |kind: &BackendKind| kind.is_container()),
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

/// Returns the session keys that a file sets, in the order of the table.
pub(super) fn asked(
    file: &FileConfig,
) -> impl Iterator<Item = (&'static SessionKey, Position)> + '_ {
    SESSION_KEYS.iter().filter_map(|row| Some((row, (row.at)(file)?)))
}
