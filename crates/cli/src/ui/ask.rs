//! Questions on the terminal.

use std::io::{BufRead, Write};

#[cfg(feature = "layers")]
use {
    super::Stdio,
    sandbox_protocol::{ExitCode, Hint},
    thiserror::Error,
};

/// A question needs a terminal, and there is none.
#[cfg(feature = "layers")]
#[derive(Debug, Error)]
#[error("not a terminal; pass --yes to {0}")]
pub(crate) struct NoTerminal(String);

#[cfg(feature = "layers")]
impl Hint for NoTerminal {
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

/// Asks for consent to an action, such as `remove this`. Returns true if the user agrees, or passed `--yes`.
#[cfg(feature = "layers")]
pub(crate) fn confirm(action: &str, yes: bool, io: &mut Stdio<'_>) -> Result<bool, NoTerminal> {
    if yes {
        return Ok(true);
    }
    if !io.interactive {
        return Err(NoTerminal(action.to_owned()));
    }
    let mut letters = action.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let question: String = first.into_iter().chain(letters).collect();
    Ok(agrees(&format!("{question}?")))
}

/// Asks a question. Returns true for `y`.
pub(crate) fn agrees(question: &str) -> bool {
    matches!(line(&format!("{question} [y/N]")).as_deref(), Some("y" | "Y" | "yes"))
}
