//! Errors of container plans, with hints.

use std::io;
use std::path::PathBuf;

use sandbox_bridge::session::BridgeError;
use sandbox_core::plan::PlanError;
use sandbox_policy::config::{Changed, Origin};
use sandbox_protocol::Hint;
use thiserror::Error;

/// Error of a container plan.
#[derive(Debug, Error)]
pub enum ContainerError {
    /// The rules below mounted directories cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The bridge to the host cannot be planned.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// A path to mount cannot be resolved.
    #[error("{origin}: cannot mount `{}`", host.display())]
    Missing {
        /// The setting.
        origin: Origin,
        /// The path on the host.
        host: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// No container can mount this path.
    #[error("{origin}: `{}` is never mounted: {why}", host.display())]
    Forbidden {
        /// The setting.
        origin: Origin,
        /// The resolved path.
        host: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The path inside is reserved.
    #[error("{origin}: nothing can be mounted at `{}`: {why}", target.display())]
    Target {
        /// The setting.
        origin: Origin,
        /// The path inside.
        target: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Two mounts have the same path inside.
    #[error("two mounts at `{}`: {first} and {second}", target.display())]
    Twice {
        /// The path inside.
        target: PathBuf,
        /// The first setting.
        first: Origin,
        /// The second setting.
        second: Origin,
    },
    /// `agent.init = "exec"` was set, but PID 1 must supervise the agent.
    #[error("{origin}: cannot use `agent.init = \"exec\"`: {why}")]
    NeedsInit {
        /// The setting.
        origin: Origin,
        /// The reason for a supervisor.
        why: &'static str,
    },
    /// The engine does not have this runtime.
    #[error("{origin}: the engine has no runtime `{name}`")]
    Runtime {
        /// The setting.
        origin: Origin,
        /// The runtime.
        name: String,
        /// Available runtimes.
        known: Vec<String>,
    },
    /// A file of environment variables cannot be read.
    #[error("{origin}: cannot read variables from `{}`", path.display())]
    EnvFile {
        /// The setting.
        origin: Origin,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The variable is reserved for PID 1.
    #[error("{origin}: variable `{name}` is reserved")]
    Variable {
        /// The setting.
        origin: Origin,
        /// The variable.
        name: String,
    },
    /// A layer cannot cover a directory with a mount below it. An overlay shows the directory under that mount.
    #[error("{origin}: `{}` cannot have a copy-on-write layer: `{}` is mounted in it", base.display(), point.display())]
    MountBelow {
        /// The setting.
        origin: Origin,
        /// The directory.
        base: PathBuf,
        /// The mount point in it.
        point: PathBuf,
    },
    /// The uid mapping of the engine is not sufficient.
    #[error("cannot use the rootless engine: {why}")]
    Users {
        /// The reason.
        why: &'static str,
    },
    /// The engine cannot set a limit.
    #[error("{origin}: the engine cannot limit `{what}`")]
    Limit {
        /// The setting.
        origin: Origin,
        /// The resource.
        what: &'static str,
    },
    /// This backend does not support a key.
    #[error("{origin}: backend `docker` does not support `{key}`: {why}")]
    Unsupported {
        /// The setting.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// The reason.
        why: &'static str,
    },
}

impl Hint for ContainerError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Plan(error) => return error.hint(),
            Self::Bridge(error) => return error.hint(),
            Self::Missing { .. } => {
                "create it first; the engine would create a missing directory as root".into()
            }
            Self::Forbidden { .. } => "mount only the directory that the agent needs".into(),
            Self::Target { .. } | Self::Twice { .. } => "choose a different path inside the container".into(),
            Self::NeedsInit { .. } => "remove `agent.init`, or set it to \"supervise\"".into(),
            Self::Runtime { known, .. } => format!("available runtimes: {}", known.join(", ")),
            Self::EnvFile { source, .. } if Changed::is_in(source) => Changed::HINT.into(),
            Self::EnvFile { .. } => "each line must have the form NAME=VALUE".into(),
            Self::Variable { .. } => "use the keys of `agent` instead".into(),
            Self::MountBelow { .. } => {
                "mount only the directory that the agent needs, or remove `cow`".into()
            }
            Self::Users { .. } => {
                "add 65536 subordinate users for yourself to /etc/subuid and /etc/subgid, and restart the engine".into()
            }
            Self::Limit { .. } => {
                "a rootless engine cannot set limits on cgroup v1, and on v2 only those that systemd delegates (`Delegate=yes`); use the system's engine, or remove `resources`".into()
            }
            Self::Unsupported { .. } => "remove it, or set `backend = \"bwrap\"`".into(),
        })
    }
}
