//! Questions on the terminal.

use std::io::{BufRead, Write};

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::Stdio;

/// A question that has no terminal to be asked on.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct NoTerminal(String);

impl Hint for NoTerminal {
    fn hint(&self) -> Option<String> {
        Some("pass `--yes`".into())
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// Returns the line that the user typed, or nothing at the end of the input.
pub(crate) fn line(question: &str) -> Option<String> {
    let _ = write!(std::io::stderr(), "{question} ").and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(count) if count > 0 => Some(answer.trim().to_owned()),
        _ => None,
    }
}

/// Returns true when the user agrees. Without a terminal, only `yes` agrees.
pub(crate) fn confirm(question: &str, yes: bool, io: &mut Stdio<'_>) -> Result<bool, NoTerminal> {
    if yes {
        return Ok(true);
    }
    if !io.interactive {
        return Err(NoTerminal(question.to_owned()));
    }
    let answer = line(&format!("{question} [y/N]"));
    Ok(matches!(answer.as_deref(), Some("y" | "Y" | "yes")))
}
