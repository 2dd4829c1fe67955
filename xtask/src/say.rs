//! Messages and errors. Progress goes to standard error; results go to standard output.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "only this module prints")]

use std::fmt::Display;

/// Result of a task without a value.
pub(crate) type Outcome = Result<(), Failure>;

/// Failure of a task, with a hint that names the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn print(&self) {
        say(format_args!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            say(format_args!("hint: {hint}"));
        }
    }
}

/// Adds the action to the error of a system call: `cannot read x: permission denied`.
pub(crate) trait Context<T> {
    fn context(self, action: impl Display) -> Result<T, Failure>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, action: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("cannot {action}: {error}")))
    }
}

/// Prints progress, as one line on standard error.
pub(crate) fn say(text: impl Display) {
    eprintln!("{text}");
}

/// Prints a result on standard output.
pub(crate) fn print(text: impl Display) {
    print!("{text}");
}
