//! `soak`: long loops, generated requests and coverage-guided fuzzing.

use std::fs;
use std::process::{Command, ExitCode};

use crate::command::{output, step, succeeds};
use crate::passes::Passes;
use crate::say::{Context, Failure};
use crate::workspace::Workspace;
use crate::{api, test};

/// Runs all tests with `AGENT_SANDBOX_SOAK`, which `./dev soak` sets, then the fuzzers.
pub(crate) fn soak(workspace: &Workspace) -> Result<ExitCode, Failure> {
    let passes = Passes::new(&workspace.made);
    test::all(workspace, &passes, &[])?;
    if passes.summary() != ExitCode::SUCCESS {
        return Ok(ExitCode::FAILURE);
    }
    api::fuzz(workspace)?;
    if !succeeds(Command::new("cargo").args(["+nightly", "fuzz", "--version"])) {
        let failure = Failure::new(
            "the tests are done, but fuzzing needs cargo-fuzz and a nightly toolchain",
        );
        return Err(failure.hint("rustup toolchain install nightly && cargo install cargo-fuzz"));
    }
    for target in output(Command::new("cargo").args(["+nightly", "fuzz", "list"]))?.lines() {
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        fs::create_dir_all(&corpus).context(format_args!("create {corpus}"))?;
        // Each input of `database` is a whole database.
        let seconds = if target == "database" { 600 } else { 60 };
        let mut fuzz = Command::new("cargo");
        fuzz.args(["+nightly", "fuzz", "run", target, &corpus, &seeds, "--"]);
        step(fuzz.args([&format!("-max_total_time={seconds}"), "-verbosity=0"]))?;
    }
    Ok(ExitCode::SUCCESS)
}
