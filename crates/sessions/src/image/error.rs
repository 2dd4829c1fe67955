//! Failures to build an image.

use std::io;
use std::path::PathBuf;

use sandbox_protocol::layout::INIT;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

/// Failure to build an image.
#[derive(Debug, Error)]
pub enum BuildError {
    /// `agent-sandbox-init` was not found.
    #[error("cannot find `{INIT}` in `{}` or PATH", .0.display())]
    NoInit(PathBuf),
    /// A program cannot be read.
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A program is not static.
    #[error("`{}` is not statically linked", .0.display())]
    NotStatic(PathBuf),
    /// Docker is not installed.
    #[error("cannot find `docker` in PATH")]
    NoDocker,
    /// The daemon does not respond.
    #[error("cannot reach the Docker daemon: {0}")]
    NoDaemon(String),
    /// Docker cannot be run.
    #[error("cannot run `{}`", .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// The base image is not local and cannot be pulled.
    #[error("cannot pull the base image `{name}`: {said}")]
    NoBase {
        /// The image.
        name: String,
        /// The last line that Docker printed.
        said: String,
    },
    /// The build context cannot be written.
    #[error("cannot send the build context to `docker build`")]
    Context(#[source] io::Error),
    /// The build failed.
    #[error("`docker build` failed: {said}")]
    Fails {
        /// True when the disk is full.
        full: bool,
        /// The last line that Docker printed.
        said: String,
    },
}

impl Hint for BuildError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoInit(_) => "install it next to `agent-sandbox`, or pass `--init FILE`",
            Self::NotStatic(_) => {
                "use a release binary, or build with `./dev run`: both are static"
            }
            Self::NoDocker => "install Docker (Debian: `apt install docker.io`)",
            Self::NoDaemon(said) if said.contains("permission denied") => {
                "only root and members of group `docker` can use it; membership is equivalent to root"
            }
            Self::NoDaemon(_) => {
                "start it as root with `systemctl start docker`, or set `DOCKER_HOST`"
            }
            Self::NoBase { .. } => {
                "pass a local image with `--base IMAGE`; `docker image ls` lists them"
            }
            Self::Fails { full: true, .. } => {
                "`docker system df` shows disk usage, `docker system prune` frees space"
            }
            Self::Fails { .. } => "see its output above; `--dry-run` prints the Dockerfile",
            Self::Read(..) | Self::Start(..) | Self::Context(_) => return None,
        };
        Some(text.to_owned())
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}
