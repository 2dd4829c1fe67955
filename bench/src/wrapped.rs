//! What a ruled command costs: `git --version` through the launcher and without it, in turns,
//! inside one sandbox.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::BenchError;
use crate::rounds::Times;
use crate::stage::Stage;

/// The name by which this program calls itself inside.
pub(crate) const INSIDE: &str = "@git-inside";

const REAL: &str = "/run/agent-sandbox/bin/git";

/// Milliseconds: through the launcher, and without it.
pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<(f64, f64), BenchError> {
    // A copy beside home: the checkout may lie below `/tmp`, which is private to a sandbox.
    let own = stage.path("bench");
    std::fs::copy(std::env::current_exe()?, &own)?;
    let inside = stage.ours("git inside").words([own]).words([INSIDE, &rounds.to_string()]);
    let output =
        inside.ready()?.command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers = said.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(wrapped)), Some(Ok(bare))) => Ok((wrapped, bare)),
        _ => Err(BenchError::Fails(inside.name, said.trim().into())),
    }
}

/// Runs inside: prints both minima.
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
