//! Why a container cannot be made as it was asked for, and what to do about it.

use std::io;
use std::path::PathBuf;

use sandbox_bridge::session::BridgeError;
use sandbox_core::plan::PlanError;
use sandbox_policy::config::{Changed, Origin};
use sandbox_protocol::Hint;
use thiserror::Error;

/// A container that cannot be made.
#[derive(Debug, Error)]
pub enum ContainerError {
    /// The rules below what is mounted.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The bridge to the host.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// Nothing to mount.
    #[error("{origin}: cannot mount `{}`", host.display())]
    Missing {
        /// The setting.
        origin: Origin,
        /// The path on the host.
        host: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Something that no container may have.
    #[error("{origin}: `{}` is never mounted: {why}", host.display())]
    Forbidden {
        /// The setting.
        origin: Origin,
        /// What the path leads to.
        host: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A place that every container has its own of.
    #[error("{origin}: nothing can be mounted at `{}`: {why}", target.display())]
    Target {
        /// The setting.
        origin: Origin,
        /// The place.
        target: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// Two things at one place.
    #[error("two mounts at `{}`: {first} and {second}", target.display())]
    Twice {
        /// The place.
        target: PathBuf,
        /// The first setting.
        first: Origin,
        /// The second.
        second: Origin,
    },
    /// A user that the agent cannot be.
    #[error("{origin}: the agent cannot be `{user}`: {why}")]
    User {
        /// The setting.
        origin: Origin,
        /// The user.
        user: String,
        /// Why.
        why: &'static str,
    },
    /// A name that means something else to the engine.
    #[error("{origin}: `{name}` is no network of its own")]
    Network {
        /// The setting.
        origin: Origin,
        /// The name.
        name: String,
    },
    /// `agent.init = "exec"`, although something has to stay beside the agent.
    #[error("{origin}: `agent.init = \"exec\"` leaves nobody beside the agent, and {why}")]
    NeedsInit {
        /// The setting.
        origin: Origin,
        /// What needs somebody.
        why: &'static str,
    },
    /// A runtime that the engine does not have.
    #[error("{origin}: the engine has no runtime `{name}`")]
    Runtime {
        /// The setting.
        origin: Origin,
        /// The runtime.
        name: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// A file of variables that cannot be used.
    #[error("{origin}: cannot use the variables in `{}`", path.display())]
    EnvFile {
        /// The setting.
        origin: Origin,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A variable that decides about the container itself.
    #[error("{origin}: the variable `{name}` is not the agent's to set")]
    Variable {
        /// The setting.
        origin: Origin,
        /// Its name.
        name: String,
    },
    /// An overlay shows what lies under a mount, not what is mounted.
    #[error("{origin}: changes in `{}` cannot be kept apart: `{}` is mounted in it", base.display(), point.display())]
    MountBelow {
        /// The setting.
        origin: Origin,
        /// The directory.
        base: PathBuf,
        /// What is mounted in it.
        point: PathBuf,
    },
    /// Users of the engine that cannot be told.
    #[error("the engine is an ordinary user's, and {why}")]
    Users {
        /// What is missing.
        why: &'static str,
    },
    /// A limit that the engine cannot set.
    #[error("{origin}: the engine cannot limit `{what}`")]
    Limit {
        /// The setting.
        origin: Origin,
        /// Of what.
        what: &'static str,
    },
    /// A key that this backend does not carry out.
    #[error("{origin}: containers do not carry out `{key}`: {why}")]
    Unsupported {
        /// The setting.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// Why.
        why: &'static str,
    },
}

impl Hint for ContainerError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Plan(error) => return error.hint(),
            Self::Bridge(error) => return error.hint(),
            Self::Missing { .. } => {
                "make it first: a missing directory would be made by the engine, as root's".into()
            }
            Self::Forbidden { .. } => "mount the one directory that the agent needs".into(),
            Self::Target { .. } | Self::Twice { .. } => "choose another place inside".into(),
            Self::User { .. } => {
                "leave `agent.user` out: the agent then has your own number, and no rights".into()
            }
            Self::Network { .. } => {
                "name a network of `docker network ls`, or write `none`, `host` or `bridge`".into()
            }
            Self::NeedsInit { .. } => "leave `agent.init` out, or write \"supervise\"".into(),
            Self::Runtime { known, .. } => format!("it has {}", known.join(", ")),
            Self::EnvFile { source, .. } if Changed::is_in(source) => Changed::HINT.into(),
            Self::EnvFile { .. } => "it holds lines `NAME=VALUE`".into(),
            Self::Variable { .. } => "use the keys of `agent` for what it stands for".into(),
            Self::MountBelow { .. } => {
                "mount the one directory that the agent needs, or leave `cow` out".into()
            }
            Self::Users { .. } => {
                "give yourself 65536 subordinate users in /etc/subuid and /etc/subgid, and start the engine again".into()
            }
            Self::Limit { .. } => {
                "an ordinary user's engine limits nothing on cgroup v1, and on v2 what systemd lets it (`Delegate=yes`): use the machine's own engine, or leave `resources` out".into()
            }
            Self::Unsupported { .. } => "leave it out, or use `backend = \"bwrap\"`".into(),
        })
    }
}
