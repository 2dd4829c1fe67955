//! `image`: images to run agents in.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sandbox_sessions::image;

/// Images to run agents in.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Build an image from the installed binaries, with the Docker that is here
    Build(Build),
}

/// Build an image.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// What to build on: Alpine, Debian, or what descends from them. One that is here needs no registry
    #[arg(long, value_name = "IMAGE", default_value = "alpine:3.21")]
    pub base: String,
    /// What to call it [default: sandbox-image, for other targets sandbox-image:TARGET]
    #[arg(short, long, value_name = "NAME[:TAG]")]
    pub tag: Option<String>,
    /// Which image
    #[arg(long, value_enum, default_value_t = Target::Sandbox)]
    pub target: Target,
    /// Install these, separated by blanks, instead of the target's own; `""` installs nothing
    #[arg(long, value_name = "NAMES")]
    pub packages: Option<String>,
    /// The `agent-sandbox-init` to put in [default: the one beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Further flags for `docker build`
    #[arg(last = true, value_name = "FLAGS")]
    pub further: Vec<OsString>,
}

/// A stage of the Dockerfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The entrypoint, which gives up root and becomes the agent, and common tools
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
