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
    #[error("`{INIT}` is neither in `{}` nor in PATH", .0.display())]
    NoInit(PathBuf),
    /// A program cannot be read.
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A program is not static.
    #[error("`{}` needs a dynamic linker, which an image may not have", .0.display())]
    NotStatic(PathBuf),
    /// Docker is not installed.
    #[error("docker is not in PATH")]
    NoDocker,
    /// The daemon does not answer.
    #[error("no Docker daemon answers: {0}")]
    NoDaemon(String),
    /// Docker cannot be run.
    #[error("cannot run `{}`", .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// The base image can neither be found nor fetched.
    #[error("the base image `{name}` is not here, and cannot be fetched: {said}")]
    NoBase {
        /// The image.
        name: String,
        /// The last line that Docker printed.
        said: String,
    },
    /// The build context cannot be written.
    #[error("cannot hand the files over to `docker build`")]
    Context(#[source] io::Error),
    /// The build failed.
    #[error("`docker build` fails: {said}")]
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
            Self::NoInit(_) => "install it beside `agent-sandbox`, or name it by `--init FILE`",
            Self::NotStatic(_) => "releases are static, and so is what `./dev run` builds",
            Self::NoDocker => "install it, on Debian: `apt install docker.io`",
            Self::NoDaemon(said) if said.contains("permission denied") => {
                "only root and the group `docker` may speak to it; whoever may is as good as root"
            }
            Self::NoDaemon(_) => {
                "start it, as root: `systemctl start docker`; `DOCKER_HOST` names another one"
            }
            Self::NoBase { .. } => {
                "`--base IMAGE` takes one that is here: `docker image ls` lists them, `docker import` makes one"
            }
            Self::Fails { full: true, .. } => {
                "`docker system df` shows what fills the disk, `docker system prune` gives space back"
            }
            Self::Fails { .. } => "what it said stands above; `--dry-run` prints the Dockerfile",
            Self::Read(..) | Self::Start(..) | Self::Context(_) => return None,
        };
        Some(text.to_owned())
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}
