//! Failures of commands, with the exit code that each stands for.

use std::error::Error;

use sandbox_protocol::{ExitCode, Hint};

/// Failure of a command, with its hint and exit code.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: Box<dyn Error>,
    pub hint: Option<String>,
    pub code: u8,
}

impl Failed {
    /// A failure with [`ExitCode::Setup`]: the sandbox could not be set up.
    pub(crate) fn new(error: impl Error + 'static, hint: Option<String>) -> Self {
        Self { error: Box::new(error), hint, code: ExitCode::Setup.code() }
    }

    /// Something was typed wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            error: message.into().into(),
            hint: Some("`agent-sandbox --help` lists the flags".into()),
            code: ExitCode::Usage.code(),
        }
    }
}

impl<E: Hint + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        let (hint, code) = (error.hint(), error.exit_code().code());
        Self { error: Box::new(error), hint, code }
    }
}

/// A command's exit code, or why it has none.
pub(crate) type Outcome = Result<u8, Failed>;
