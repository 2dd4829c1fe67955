//! Cost of a command with rules: `git --version` with and without the launcher, in turns, in one sandbox.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::BenchError;
use crate::fixture::Fixture;
use crate::rounds::Times;

/// Argument with which this program runs itself inside the sandbox.
pub(crate) const INSIDE: &str = "@git-inside";

const REAL: &str = "/run/agent-sandbox/bin/git";

/// Returns the times in milliseconds with and without the launcher.
pub(crate) fn measure(fixture: &Fixture, rounds: usize) -> Result<(f64, f64), BenchError> {
    // Copy the binary next to the home. The checkout may be below `/tmp`, which is private in a sandbox.
    let own = fixture.path("bench");
    std::fs::copy(std::env::current_exe()?, &own)?;
    let inside = fixture.ours("git inside").words([own]).words([INSIDE, &rounds.to_string()]);
    let output =
        inside.ready()?.command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers = said.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(wrapped)), Some(Ok(bare))) => Ok((wrapped, bare)),
        _ => Err(BenchError::Fails(inside.name, said.trim().into())),
    }
}

/// Measures inside the sandbox and prints both minima.
pub(crate) fn inside(rounds: usize) -> Result<(), BenchError> {
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..2 {
            let index = (round + turn) % 2;
            let program = if index == 0 { "git" } else { REAL };
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null());
            let before = Instant::now();
            let status = command.status();
            let time = before.elapsed();
            let status = status.map_err(|error| BenchError::Start(program.into(), error))?;
            if !status.success() {
                return Err(BenchError::Fails(program.into(), status.to_string()));
            }
            runs[index].push(time);
        }
    }
    let [wrapped, bare] = runs.map(|runs| Times::of(runs).min());
    println!("{wrapped} {bare}");
    Ok(())
}
