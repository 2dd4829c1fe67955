//! Failures of commands, with the exit code that each stands for.

use std::error::Error;

use sandbox_core::plan::PlanError;
use sandbox_protocol::ExitCode;

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

impl From<PlanError> for Failed {
    fn from(error: PlanError) -> Self {
        let (hint, code) = (error.hint(), error.exit_code().code());
        Self { error: Box::new(error), hint, code }
    }
}

impl From<sandbox_core::config::ConfigError> for Failed {
    fn from(error: sandbox_core::config::ConfigError) -> Self {
        PlanError::from(error).into()
    }
}

/// A command's exit code, or why it has none.
pub(crate) type Outcome = Result<u8, Failed>;
