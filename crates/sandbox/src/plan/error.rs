//! Why a plan cannot be made, and what to do about it.

use std::path::PathBuf;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::wrapper::WrapperError;
use sandbox_git::protect::ProtectError;
use sandbox_policy::config::{ConfigError, Origin};
use sandbox_policy::path::pattern::PatternError;
use sandbox_policy::path::resolve::ResolveError;

/// A plan that cannot be made.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A path rule.
    #[error(transparent)]
    Path(#[from] ResolveError),
    /// A command rule.
    #[error(transparent)]
    Wrapper(#[from] WrapperError),
    /// A repository that cannot be protected.
    #[error(transparent)]
    Git(#[from] ProtectError),
    /// A rule on a place that every sandbox makes anew.
    #[error("{origin}: no rule can be set on `{}`, which every sandbox has its own of", path.display())]
    Reserved {
        /// The place.
        path: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// The working directory cannot be seen.
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
    #[error("{origin} asks for Docker, but no daemon's socket was found (looked at {})", looked.join(", "))]
    NoDocker {
        /// The setting.
        origin: Origin,
        /// The places looked at.
        looked: Vec<String>,
    },
    /// A socket that is to be opened is not there.
    #[error("{origin}: `{path}` is no socket")]
    NoSocket {
        /// The setting.
        origin: Origin,
        /// What was asked for.
        path: String,
    },
    /// A bind mount that has no source or no place.
    #[error("{origin}: cannot mount `{}` at `{}`: {why}", host.display(), target.display())]
    Mount {
        /// The setting.
        origin: Origin,
        /// The path on the host.
        host: PathBuf,
        /// The path inside.
        target: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// Everything is writable, and everything cannot be kept apart.
    #[error("{origin}: changes cannot be kept apart while `/` is writable")]
    CowEverything {
        /// The setting.
        origin: Origin,
    },
    /// A layer, in a sandbox whose changes go where the outermost one decides.
    #[error("{origin}: inside a sandbox there is no place to keep changes apart")]
    NestedCow {
        /// The setting.
        origin: Origin,
    },
    /// Hosts by name, in a sandbox whose network is somebody else's.
    #[error("{origin}: inside a sandbox there is no way out that a list of hosts could narrow")]
    NestedEgress {
        /// The setting.
        origin: Origin,
    },
    /// A network that only containers can have.
    #[error("{origin}: the network `{mode}` is Docker's, and this is no container")]
    ContainerNetwork {
        /// The setting.
        origin: Origin,
        /// The mode.
        mode: String,
    },
    /// The home directory is not there.
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
                Some("keep changes apart where the outermost sandbox starts".into())
            }
            Self::NestedEgress { .. } => Some(
                "`--network` shares the network of the sandbox around, which stays as narrow as it is"
                    .into(),
            ),
            Self::ContainerNetwork { .. } => Some(
                "the local sandbox knows `true`, `false`, `\"host\"`, `\"none\"` and `\"allow\"`; \
                 `agent-sandbox up` with `backend = \"docker\"` makes a container"
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
