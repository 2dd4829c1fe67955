//! Questions on the terminal.

use std::io::{BufRead, Write};

use super::ChangesError;
use crate::ui::Stdio;

/// A line typed by the user; nothing at the end of the input.
pub(crate) fn line(question: &str) -> Option<String> {
    let _ = write!(std::io::stderr(), "{question} ").and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(count) if count > 0 => Some(answer.trim().to_owned()),
        _ => None,
    }
}

/// Whether the user agrees. Nobody there to ask is an error that says so.
pub(crate) fn confirm(question: &str, yes: bool, io: &mut Stdio<'_>) -> Result<bool, ChangesError> {
    if yes {
        return Ok(true);
    }
    if !io.interactive {
        return Err(ChangesError::NoTerminal(question.to_owned()));
    }
    let answer = line(&format!("{question} [y/N]"));
    Ok(matches!(answer.as_deref(), Some("y" | "Y" | "yes")))
}
