//! `image build`: the stages of `image/Dockerfile`, with the binaries that are installed here in the place of the one
//! that compiles. No Rust, and with a base that is here no registry.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_protocol::layout::INIT;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::context::Context;
use super::docker::Docker;
use super::{dockerfile, elf};
use crate::args::Flags;
use crate::args::image::{Build, Target};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Why there is no image.
#[derive(Debug, Error)]
pub(crate) enum BuildError {
    #[error("`{INIT}` is neither in `{}` nor in PATH", .0.display())]
    NoInit(PathBuf),
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("`{}` needs a dynamic linker, which an image may not have", .0.display())]
    NotStatic(PathBuf),
    #[error("docker is not in PATH")]
    NoDocker,
    #[error("no Docker daemon answers: {0}")]
    NoDaemon(String),
    #[error("cannot run `{}`", .0.display())]
    Start(PathBuf, #[source] io::Error),
    #[error("the base image `{name}` is not here, and cannot be fetched: {said}")]
    NoBase { name: String, said: String },
    #[error("cannot hand the files over to `docker build`")]
    Context(#[source] io::Error),
    #[error("`docker build` fails: {said}")]
    Fails { full: bool, said: String },
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

/// Builds an image.
pub(crate) fn run(flags: &Flags, build: &Build, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let dockerfile = dockerfile::of(build.target.name());
    if flags.dry_run {
        io.data(&dockerfile);
        return Ok(0);
    }
    let context = Context { dockerfile, programs: programs(build, host)? };
    let docker = Docker::find(host)?;
    if docker.image(&build.base)?.is_none() {
        docker.pull(&build.base, io)?;
    }
    docker.build(&words(build), &context, io)?;
    let tag = build.tag();
    let id = docker.image(&tag)?;
    if flags.json {
        let target = build.target.name();
        let base = &build.base;
        super::super::json(
            &serde_json::json!({ "image": tag, "id": id, "target": target, "base": base }),
            io,
        );
    } else {
        io.labelled(Tone::Good, "built", &format!("`{tag}` on `{}`", build.base));
        io.data(&format!("{tag}\n"));
    }
    Ok(0)
}

/// The words of `docker build`.
fn words(build: &Build) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["build".into(), "--tag".into(), build.tag().into()];
    let version = format!("VERSION={}", env!("CARGO_PKG_VERSION"));
    let packages = build.packages.as_ref().map(|names| format!("PACKAGES={names}"));
    let arguments = [Some(version), Some(format!("BASE={}", build.base)), packages];
    for argument in arguments.into_iter().flatten() {
        words.extend(["--build-arg".into(), argument.into()]);
    }
    words.extend(build.further.iter().cloned());
    words.push("-".into());
    words
}

/// The programs that go into the image.
fn programs(build: &Build, host: &Host) -> Result<Vec<(&'static str, PathBuf)>, BuildError> {
    let mut programs = vec![(INIT, find_init(build, host)?)];
    if build.target == Target::Init {
        programs.push(("agent-sandbox", host.exe.clone()));
    }
    for (_, path) in &programs {
        match elf::is_static(path) {
            Ok(true) => {}
            Ok(false) => return Err(BuildError::NotStatic(path.clone())),
            Err(error) => return Err(BuildError::Read(path.clone(), error)),
        }
    }
    Ok(programs)
}

fn find_init(build: &Build, host: &Host) -> Result<PathBuf, BuildError> {
    if let Some(file) = &build.init {
        return Ok(file.clone());
    }
    let beside = host.exe.parent().unwrap_or(Path::new("/")).to_owned();
    let mut places = [beside.clone()].into_iter().chain(host.search_path());
    let found = places.find_map(|folder| Some(folder.join(INIT)).filter(|path| path.is_file()));
    found.ok_or(BuildError::NoInit(beside))
}
