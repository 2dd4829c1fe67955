//! Checkout, its target directory, and cargo in it.
#![allow(
    clippy::disallowed_methods,
    reason = "this tool has no `Host`; only this module reads variables"
)]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::made::Made;
use crate::say::{Context, Failure, Outcome, say};

/// Target of the init that tests of another architecture run. It has no C in it, so Rust alone links it on any machine.
const ARM64: &str = "aarch64-unknown-linux-musl";

/// Checkout that a task works in.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Target directory of cargo. Large tools and images are kept in it, too.
    pub(crate) out: PathBuf,
    /// Triple of all that is tested: the one that is released, so tests run what users get.
    triple: String,
    pub(crate) made: Made,
}

impl Workspace {
    /// Finds the checkout from the variables that `cargo run` and `./dev` set, and goes there.
    pub(crate) fn find() -> Result<Self, Failure> {
        let this = variable("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = this.as_deref().and_then(Path::parent);
        let root = root.ok_or_else(|| {
            Failure::new("cannot find the checkout").hint("start this with: ./dev")
        })?;
        env::set_current_dir(root).context(format_args!("enter {}", root.display()))?;
        let out =
            variable("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |out| root.join(out));
        let triple = match variable("DEV_TARGET").and_then(|triple| triple.into_string().ok()) {
            Some(triple) => triple,
            None => host()?,
        };
        Ok(Self { root: root.to_owned(), out, triple, made: Made::open(variable("DEV_SCRATCH"))? })
    }

    /// Returns `cargo WORD` for the target that is tested.
    pub(crate) fn cargo(&self, word: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args([word, "--quiet", "--target", &self.triple]).current_dir(&self.root);
        if !self.triple.ends_with("-musl") {
            // With `--target`, these flags leave build scripts and macros alone. For musl, see .cargo/config.toml.
            cargo.env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
        }
        cargo
    }

    /// Returns the directory of the binaries that tests run.
    pub(crate) fn binaries(&self) -> PathBuf {
        self.out.join(&self.triple).join("debug")
    }

    /// Builds both binaries and returns their directory.
    pub(crate) fn build(&self, profile: &str) -> Result<PathBuf, Failure> {
        let mut build = self.cargo("build");
        build.args([
            "--profile",
            profile,
            "--package",
            "agent-sandbox",
            "--package",
            "agent-sandbox-init",
        ]);
        command::run(&mut build)?;
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(self.out.join(&self.triple).join(folder))
    }

    /// Builds the init for arm64 and returns its directory.
    pub(crate) fn build_arm64(&self) -> Result<PathBuf, Failure> {
        need_target(ARM64)?;
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--package", "agent-sandbox-init", "--target", ARM64]);
        command::run(build.current_dir(&self.root))?;
        Ok(self.out.join(ARM64).join("debug"))
    }
}

/// Installs the standard library of a target, where that is missing.
fn need_target(target: &str) -> Outcome {
    let library = command::output(Command::new("rustc").args([
        "--print",
        "target-libdir",
        "--target",
        target,
    ]))?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    command::run(Command::new("rustup").args(["target", "add", target]))
}

/// Returns the triple of this machine's toolchain.
fn host() -> Result<String, Failure> {
    say(
        "note: without ./dev, packages are not installed, and the binaries are built for this machine",
    );
    let about = command::output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::new("rustc does not name its host"))
}

/// Returns an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
