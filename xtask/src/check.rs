//! `check`: exactly what CI runs.

use std::fs;
use std::process::{Command, ExitCode};
use std::thread;

use crate::command::{step, succeeds};
use crate::passes::{Passes, in_place};
use crate::say::{Context, Failure, Outcome, say};
use crate::suites::{FEATURES, Suites};
use crate::workspace::Workspace;
use crate::{host, test, tools, words};

/// Scripts that shellcheck reads.
const SCRIPTS: [&str; 6] =
    ["dev", ".ci/run", "image/build", "image/compile", "image/prepare", "image/zig-cc"];

/// Features of the binary without its parts: what its local tests need.
const LOCAL: [&str; 4] =
    ["--package", "agent-sandbox", "--no-default-features", "--features=setup"];

pub(crate) fn check(workspace: &Workspace) -> Result<ExitCode, Failure> {
    tools::components()?;
    thread::scope(|scope| {
        // What the tests need from outside and the compiler does not.
        let fetch = scope.spawn(|| {
            tools::sdk(workspace)?;
            tools::debian(workspace)
        });
        lints(workspace)?;
        fetch.join().expect("fetching does not panic").map(drop)
    })?;
    let passes = Passes::new(&workspace.made);
    local(workspace, &passes)?;
    test::all(workspace, &passes, &[])?;
    Ok(passes.summary())
}

/// Runs everything that compiles or reads the sources without running them.
fn lints(workspace: &Workspace) -> Outcome {
    step(Command::new("cargo").args(["fmt", "--all", "--check"]))?;
    say("== words");
    words::check(&workspace.root)?;
    let strict = ["--", "-D", "warnings"];
    step(workspace.cargo("clippy").args(["--workspace", "--all-targets", FEATURES]).args(strict))?;
    step(workspace.cargo("clippy").args(LOCAL).args(["--bins", "--test", "e2e"]).args(strict))?;
    let mut doc = workspace.cargo("doc");
    step(doc.args(["--no-deps", "--workspace", FEATURES]).env("RUSTDOCFLAGS", "-D warnings"))?;
    minimum(workspace)?;
    if succeeds(Command::new("cargo").args(["deny", "--version"])) {
        step(Command::new("cargo").args(["deny", "--log-level", "error", "check"]))?;
    }
    if succeeds(Command::new("shellcheck").arg("--version")) {
        step(Command::new("shellcheck").args(SCRIPTS))?;
    }
    Ok(())
}

/// Compiles with the minimum version that Cargo.toml declares, where rustup has it or can fetch it.
fn minimum(workspace: &Workspace) -> Outcome {
    let manifest =
        fs::read_to_string(workspace.root.join("Cargo.toml")).context("read Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version
        .ok_or_else(|| Failure::new("Cargo.toml declares no rust-version"))?
        .trim_matches('"');
    let mut fetch = Command::new("timeout");
    fetch.args([
        "300",
        "rustup",
        "toolchain",
        "install",
        version,
        "--profile",
        "minimal",
        "--no-self-update",
    ]);
    let has = succeeds(Command::new("rustup").args(["run", version, "rustc", "--version"]));
    if !has && !succeeds(&mut fetch) {
        say(format_args!("note: not checked with Rust {version}, which rustup cannot fetch"));
        return Ok(());
    }
    let mut check = Command::new("rustup");
    check.args(["run", version, "cargo", "check", "--quiet", "--locked"]);
    step(check.args(["--package", "agent-sandbox", "--package", "agent-sandbox-init"]))
}

/// Runs the binary without its features: the part of the suite that is about walls, files and commands.
fn local(workspace: &Workspace, passes: &Passes<'_>) -> Outcome {
    host::need_namespaces(Command::new("env"))?;
    let mut cargo = workspace.cargo("test");
    let suites = Suites::of(cargo.args(LOCAL).args(["--bins", "--test", "e2e"]))?;
    let topics = ["local::", "cli::", "filesystem::", "commands::", "network::", "why::"];
    let commands = suites.plain(true).into_iter().map(|suite| in_place(suite, &topics)).collect();
    passes.run(&format!("the local sandbox alone, as {}", test::me()?), commands);
    Ok(())
}
