//! Arguments of `image`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sandbox_sessions::image;

/// Build container images for agents.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Build an image from the installed binaries, with the local Docker
    Build(Build),
}

/// Build an image.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Base image: Alpine, Debian or a derivative. A local image needs no registry
    #[arg(long, value_name = "IMAGE", default_value = "alpine:3.21")]
    pub base: String,
    /// Name of the image [default: sandbox-image, for other targets sandbox-image:TARGET]
    #[arg(short, long, value_name = "NAME[:TAG]")]
    pub tag: Option<String>,
    /// Kind of image
    #[arg(long, value_enum, default_value_t = Target::Sandbox)]
    pub target: Target,
    /// Install these packages, separated by spaces, instead of the target's; `""` installs none
    #[arg(long, value_name = "NAMES")]
    pub packages: Option<String>,
    /// `agent-sandbox-init` to include [default: beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// More flags for `docker build`
    #[arg(last = true, value_name = "FLAGS")]
    pub further: Vec<OsString>,
}

/// Stage of the Dockerfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Common tools, and an entrypoint that drops root and starts the agent
    Sandbox,
    /// An init, with a copy-on-write home
    Init,
    /// The entrypoint, a shell and an SSH client, without a distribution
    Minimal,
}

impl From<Target> for image::Target {
    fn from(target: Target) -> Self {
        match target {
            Target::Sandbox => Self::Sandbox,
            Target::Init => Self::Init,
            Target::Minimal => Self::Minimal,
        }
    }
}

impl From<Build> for image::Build {
    fn from(build: Build) -> Self {
        let Build { base, tag, target, packages, init, further } = build;
        let target = image::Target::from(target);
        let tag = tag.unwrap_or_else(|| match target {
            image::Target::Sandbox => "sandbox-image".into(),
            other => format!("sandbox-image:{}", other.name()),
        });
        Self { base, tag, target, packages, init, further }
    }
}
