//! Errors of planning, with their hints.

use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::wrapper::WrapperError;
use sandbox_git::protect::ProtectError;
use sandbox_policy::config::{ConfigError, Origin};
use sandbox_policy::path::pattern::PatternError;
use sandbox_policy::path::resolve::ResolveError;

/// Failure to make a plan.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Invalid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Invalid path rule.
    #[error(transparent)]
    Path(#[from] ResolveError),
    /// Invalid command rule.
    #[error(transparent)]
    Wrapper(#[from] WrapperError),
    /// Repository that cannot be protected.
    #[error(transparent)]
    Git(#[from] ProtectError),
    /// Rule on a path that the sandbox manages.
    #[error("{origin}: cannot set a rule on `{}`, which the sandbox manages", path.display())]
    Reserved {
        /// The path.
        path: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// The working directory is hidden.
    #[error("the working directory `{}` is hidden by {origin}", cwd.display())]
    CwdHidden {
        /// The directory.
        cwd: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// The working directory is the shared temporary directory.
    #[error("the working directory is `/tmp`, which is private to each sandbox")]
    CwdIsTmp,
    /// `docker = true` without a daemon.
    #[error("{origin}: cannot find the socket of a Docker daemon (looked at {})", looked.join(", "))]
    NoDocker {
        /// The setting.
        origin: Origin,
        /// Paths that were tried.
        looked: Vec<String>,
    },
    /// A path under `sockets` does not exist, or is not a socket.
    #[error("{origin}: `{path}` {why}")]
    NoSocket {
        /// The setting.
        origin: Origin,
        /// The path as written.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// Bind mount without a source or without a usable target.
    #[error("{origin}: cannot mount `{}` at `{}`: {why}", host.display(), target.display())]
    Mount {
        /// The setting.
        origin: Origin,
        /// The path on the host.
        host: PathBuf,
        /// The path inside.
        target: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Copy-on-write while `/` is writable. The whole root cannot be an overlay.
    #[error("{origin}: cannot use copy-on-write while `/` is writable")]
    CowEverything {
        /// The setting.
        origin: Origin,
    },
    /// Copy-on-write inside a sandbox. The outermost one decides where changes go.
    #[error("{origin}: cannot use copy-on-write inside a sandbox")]
    NestedCow {
        /// The setting.
        origin: Origin,
    },
    /// A list of hosts inside a sandbox. The network belongs to the outermost one.
    #[error("{origin}: cannot limit the network to a list of hosts inside a sandbox")]
    NestedEgress {
        /// The setting.
        origin: Origin,
    },
    /// Network that only containers have.
    #[error("{origin}: unknown network `{mode}` for a local sandbox")]
    ContainerNetwork {
        /// The setting.
        origin: Origin,
        /// The network as written.
        mode: String,
    },
    /// The home directory does not exist.
    #[error("the home directory `{}` does not exist, or is not a directory", .0.display())]
    Home(PathBuf),
}

impl Hint for PlanError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Wrapper(error) => error.hint(),
            Self::Git(error) => error.hint(),
            Self::CwdHidden { origin, .. } => {
                Some(format!("pass `--cwd`, or drop the rule from {origin}"))
            }
            Self::Home(_) => Some("set `HOME` to your home directory, or create it".into()),
            Self::CowEverything { .. } => {
                Some("drop the rule `rw /`, or pass `--cow=false`".into())
            }
            Self::NestedCow { .. } => {
                Some("pass `--cow` when you start the outermost sandbox".into())
            }
            Self::NestedEgress { .. } => Some(
                "pass `--network` to share the outer sandbox's network; its limits still apply"
                    .into(),
            ),
            Self::ContainerNetwork { .. } => Some(
                "use `true`, `false`, `\"host\"`, `\"none\"`, `\"allow\"` or a list of hosts; \
                 Docker's networks need a container: `agent-sandbox up` with `backend = \"docker\"`"
                    .into(),
            ),
            Self::CwdIsTmp => Some("work in a directory below it, or set `tmp = \"host\"`".into()),
            Self::NoDocker { .. } => {
                Some("start the daemon, or set `DOCKER_HOST` to its socket".into())
            }
            Self::Path(ResolveError { error: PatternError::NoHome(_), .. }) => Some(
                "set `HOME`, or put `\"!@base\"` into `filesystem.presets` of your configuration"
                    .into(),
            ),
            _ => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}
