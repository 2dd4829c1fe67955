//! Images to run agents in. They use the stages of `image/Dockerfile`, but copy the installed binaries instead of
//! compiling them, so a build needs no Rust toolchain. With a local base image it needs no registry.

mod elf;
mod dockerfile;
mod context;
mod error;
mod docker;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_protocol::layout::INIT;

pub use error::BuildError;

use context::Context;
use docker::Docker;

/// Stage of the Dockerfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The entrypoint and common tools.
    Sandbox,
    /// An init with a copy-on-write home.
    Init,
    /// The entrypoint, a shell and an SSH client.
    Minimal,
}

impl Target {
    /// Returns the stage's name in the Dockerfile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Init => "init",
            Self::Minimal => "minimal",
        }
    }
}

/// Image to build.
#[derive(Debug, Clone)]
pub struct Build {
    /// Base image.
    pub base: String,
    /// Name of the image.
    pub tag: String,
    /// Stage.
    pub target: Target,
    /// Packages to install instead of the target's default ones.
    pub packages: Option<String>,
    /// Path of `agent-sandbox-init`, if it is neither next to this program nor in `PATH`.
    pub init: Option<PathBuf>,
    /// Additional flags for `docker build`.
    pub further: Vec<OsString>,
}

impl Build {
    /// Returns the Dockerfile.
    pub fn dockerfile(&self) -> String {
        dockerfile::of(self.target.name())
    }

    /// Builds the image and returns its id. Passes each line that Docker prints to `said`.
    pub fn run(
        &self,
        host: &Host,
        said: &mut dyn FnMut(&str),
    ) -> Result<Option<String>, BuildError> {
        let context = Context { dockerfile: self.dockerfile(), programs: self.programs(host)? };
        let docker = Docker::find(host)?;
        if docker.image(&self.base)?.is_none() {
            docker.pull(&self.base, said)?;
        }
        docker.build(&self.words(), &context, said)?;
        docker.image(&self.tag)
    }

    /// Returns the arguments of `docker build`.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            vec!["build".into(), "--tag".into(), self.tag.clone().into()];
        let version = format!("VERSION={}", env!("CARGO_PKG_VERSION"));
        let packages = self.packages.as_ref().map(|names| format!("PACKAGES={names}"));
        let arguments = [Some(version), Some(format!("BASE={}", self.base)), packages];
        for argument in arguments.into_iter().flatten() {
            words.extend(["--build-arg".into(), argument.into()]);
        }
        words.extend(self.further.iter().cloned());
        words.push("-".into());
        words
    }

    /// Finds the programs that go into the image.
    fn programs(&self, host: &Host) -> Result<Vec<(&'static str, PathBuf)>, BuildError> {
        let mut programs = vec![(INIT, self.find_init(host)?)];
        if self.target == Target::Init {
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

    fn find_init(&self, host: &Host) -> Result<PathBuf, BuildError> {
        if let Some(file) = &self.init {
            return Ok(file.clone());
        }
        let beside = host.exe.parent().unwrap_or(Path::new("/")).to_owned();
        let mut places = [beside.clone()].into_iter().chain(host.search_path());
        let found = places.find_map(|folder| Some(folder.join(INIT)).filter(|path| path.is_file()));
        found.ok_or(BuildError::NoInit(beside))
    }
}
