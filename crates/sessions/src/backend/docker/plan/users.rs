//! Whose files they are: how users inside are this machine's, on an engine of root's and on one of an ordinary user's.
//!
//! | engine | who inside is the caller | how |
//! |---|---|---|
//! | Docker or Podman, root's | the caller's own number | the engine changes no numbers |
//! | Podman, the caller's | the caller's own number | `keep-id` |
//! | Docker, the caller's | root's number, with no right of root's | the engine can do nothing else |

use sandbox_policy::config::{Config, Dockerd, Origin, Services, Sourced};
use sandbox_policy::host::Host;
use serde::Serialize;

use super::workspace::clones;
use super::{Container, ContainerError, Engine};

/// Uid of PID 1 where the agent has root's: in every engine's range, and used by no distribution.
const INIT_UID: u32 = 65529;

/// Users of a namespace, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The first, as the namespace counts.
    pub inside: u32,
    /// The same, as this machine counts.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// Returns the uid that PID 1 takes, where the agent has root's.
pub(super) fn init_uid(engine: &Engine, ids: Option<(u32, u32)>) -> Option<u32> {
    (engine.rootless && !engine.podman && ids == Some((0, 0))).then_some(INIT_UID)
}

/// What the engine is told.
pub(super) fn mode(engine: &Engine) -> Option<String> {
    (engine.rootless && engine.podman).then(|| "keep-id".to_owned())
}

/// Returns the uid of PID 1 as this machine counts.
pub(super) fn first(
    host: &Host,
    engine: &Engine,
    init_uid: Option<u32>,
) -> Result<u32, ContainerError> {
    if !engine.rootless {
        return Ok(0);
    }
    let number = match (engine.podman, init_uid) {
        // The caller stands where it stands outside, and root is the first of the others.
        (true, _) => 1,
        (false, Some(uid)) => uid,
        (false, None) => return Ok(host.uid),
    };
    outside(engine, number)
        .ok_or(ContainerError::Users { why: "it has too few subordinate users to tell apart" })
}

fn outside(engine: &Engine, number: u32) -> Option<u32> {
    let covers =
        |range: &&Range| number.checked_sub(range.inside).is_some_and(|at| at < range.count);
    let range = engine.users.iter().find(covers)?;
    range.outside.checked_add(number - range.inside)
}

/// What an engine of an ordinary user's cannot do for a session.
pub(super) fn check(config: &Config, engine: &Engine) -> Result<(), ContainerError> {
    if !engine.rootless {
        return Ok(());
    }
    let refused = |origin: &Origin, key, why| {
        Err(ContainerError::Unsupported { origin: origin.clone(), key, why })
    };
    let session = &config.session;
    if let Some(workspace) = session.workspace.as_ref().filter(|_| clones(config)) {
        let why =
            "the home that it is set up in would be a subordinate user's; mount a clone of yours";
        return refused(&workspace.origin, "workspace.path", why);
    }
    let wanted = |services: &&Sourced<Services>| services.value.dockerd != Dockerd::Off;
    if let Some(services) = session.services.as_ref().filter(wanted) {
        let why =
            "an engine of an ordinary user's has no privileges to give; use the machine's own";
        return refused(&services.origin, "services.dockerd", why);
    }
    Ok(())
}

/// A limit that was asked for and cannot be set is refused; one of ours that cannot is said.
pub(super) fn limits(
    config: &Config,
    engine: &Engine,
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
        // To an engine, nothing is no limit.
        match *what {
            "memory" => made.memory = 0,
            "pids" => made.pids = 0,
            _ => continue,
        }
        made.except(format!("no limit of {what}"), "this engine cannot set any", None);
    }
    Ok(())
}
