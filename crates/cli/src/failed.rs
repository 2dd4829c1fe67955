//! Failures of commands.

use std::error::Error;

use sandbox_protocol::{ExitCode, Hint};

/// Failure of a command, with its exit code.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: Box<dyn Error>,
    pub hint: Option<String>,
    /// Word for programs: the `code` of the HTTP API.
    pub word: &'static str,
    pub code: u8,
}

impl Failed {
    /// Returns a failure with [`ExitCode::Setup`].
    pub(crate) fn new(error: impl Error + 'static, hint: Option<String>) -> Self {
        Self { error: Box::new(error), hint, word: "internal", code: ExitCode::Setup.code() }
    }

    /// Returns an error in the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            error: message.into().into(),
            hint: Some("`agent-sandbox --help` lists the flags".into()),
            word: "invalid",
            code: ExitCode::Usage.code(),
        }
    }

    /// Returns the error for a command that needs a subcommand.
    pub(crate) fn no_subcommand(word: &str) -> Self {
        let hint = format!("`agent-sandbox help {word}` lists the subcommands");
        Self { hint: Some(hint), ..Self::usage(format!("`{word}` needs a subcommand")) }
    }

    /// Returns a failure with [`ExitCode::Failure`]: nothing went wrong, and there was nothing to do.
    #[cfg(feature = "layers")]
    pub(crate) fn of_result(message: String, hint: String) -> Self {
        let code = ExitCode::Failure.code();
        Self { error: message.into(), hint: Some(hint), word: "failed", code }
    }

    /// Returns the failure as `--json` prints it.
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut message = self.error.to_string();
        let mut source = self.error.source();
        while let Some(error) = source {
            message = format!("{message}: {error}");
            source = error.source();
        }
        serde_json::json!({ "error": { "code": self.word, "message": message, "hint": self.hint } })
    }
}

impl<E: Hint + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        let (hint, word, code) = (error.hint(), error.code(), error.exit_code().code());
        Self { error: Box::new(error), hint, word, code }
    }
}

/// Exit code of a command, or its failure.
pub(crate) type Outcome = Result<u8, Failed>;
