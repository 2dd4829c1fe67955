//! Mapping of users inside to users of this machine, for rootful and rootless engines. It decides who owns files.
//!
//! | engine | uid inside of the caller | mechanism |
//! |---|---|---|
//! | Docker or Podman, rootful | the caller's uid | the engine maps no uids |
//! | Podman, rootless | the caller's uid | `keep-id` |
//! | Docker, rootless | 0, without capabilities | the only mapping of the engine |

use sandbox_policy::config::{Config, Dockerd, Origin, Services, Sourced};
use sandbox_policy::host::Host;
use serde::Serialize;

use super::workspace::clones;
use super::{Container, ContainerError, EngineFacts};

/// Uid of PID 1 if the agent has uid 0. It is in every engine's range, and no distribution uses it.
const INIT_UID: u32 = 65529;

/// Range of consecutive uids: `user_namespaces(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// First uid in the namespace.
    pub inside: u32,
    /// First uid on this machine.
    pub outside: u32,
    /// Number of uids.
    pub count: u32,
}

/// Returns the uid of PID 1 if the agent has uid 0.
pub(super) fn init_uid(engine: &EngineFacts, ids: Option<(u32, u32)>) -> Option<u32> {
    (engine.rootless && !engine.podman && ids == Some((0, 0))).then_some(INIT_UID)
}

/// Returns the engine's user namespace mode.
pub(super) fn mode(engine: &EngineFacts) -> Option<String> {
    (engine.rootless && engine.podman).then(|| "keep-id".to_owned())
}

/// Returns the uid of PID 1 on this machine.
pub(super) fn first(
    host: &Host,
    engine: &EngineFacts,
    init_uid: Option<u32>,
) -> Result<u32, ContainerError> {
    if !engine.rootless {
        return Ok(0);
    }
    let number = match (engine.podman, init_uid) {
        // The caller keeps its uid, and root is the first subordinate user.
        (true, _) => 1,
        (false, Some(uid)) => uid,
        (false, None) => return Ok(host.uid),
    };
    outside(engine, number).ok_or(ContainerError::Users { why: "it has too few subordinate users" })
}

fn outside(engine: &EngineFacts, number: u32) -> Option<u32> {
    let covers =
        |range: &&Range| number.checked_sub(range.inside).is_some_and(|at| at < range.count);
    let range = engine.users.iter().find(covers)?;
    range.outside.checked_add(number - range.inside)
}

/// Refuses settings that a rootless engine does not support.
pub(super) fn check(config: &Config, engine: &EngineFacts) -> Result<(), ContainerError> {
    if !engine.rootless {
        return Ok(());
    }
    let refused = |origin: &Origin, key, why| {
        Err(ContainerError::Unsupported { origin: origin.clone(), key, why })
    };
    let session = &config.session;
    if let Some(workspace) = session.workspace.as_ref().filter(|_| clones(config)) {
        let why = "with a rootless engine, the home that contains it would belong to a subordinate user; mount an existing clone";
        return refused(&workspace.origin, "workspace.path", why);
    }
    let wanted = |services: &&Sourced<Services>| services.value.dockerd != Dockerd::Off;
    if let Some(services) = session.services.as_ref().filter(wanted) {
        let why = "a rootless engine cannot run privileged containers; use the system's engine";
        return refused(&services.origin, "services.dockerd", why);
    }
    Ok(())
}

/// Refuses a requested limit that the engine cannot set. Lists default limits that it cannot set as exceptions.
pub(super) fn limits(
    config: &Config,
    engine: &EngineFacts,
    made: &mut Container,
) -> Result<(), ContainerError> {
    if let Some(asked) = &config.session.resources {
        let asks = [
            ("memory", asked.value.memory.is_some()),
            ("pids", asked.value.pids.is_some()),
            ("cpus", asked.value.cpus.is_some()),
        ];
        let cannot = |what: &str| engine.unlimited.contains(&what);
        if let Some((what, _)) = asks.into_iter().find(|(what, asked)| *asked && cannot(what)) {
            return Err(ContainerError::Limit { origin: asked.origin.clone(), what });
        }
    }
    for what in &engine.unlimited {
        // Zero means no limit.
        match *what {
            "memory" => made.memory = 0,
            "pids" => made.pids = 0,
            _ => continue,
        }
        made.except(format!("no {what} limit"), "this engine cannot set one", None);
    }
    Ok(())
}
