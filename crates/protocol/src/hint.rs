//! Errors as their user meets them: a code for programs, the next step, and the exit code.

use std::error::Error;

use crate::ExitCode;

/// Error that can end a command.
///
/// All answers hang on the variants of an error enum, so errors stay typed up to the binary, which prints the hint and
/// ends with the code.
pub trait Hint: Error {
    /// Returns the next step for the user, if there is one.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Returns a code for programs, which `--json` prints. It is the one that the HTTP API uses.
    fn code(&self) -> &'static str {
        match self.exit_code() {
            ExitCode::Usage => "invalid",
            ExitCode::Setup | ExitCode::Blocked => "refused",
            _ => "failed",
        }
    }

    /// Returns the exit code of a command that ends with this error.
    fn exit_code(&self) -> ExitCode {
        ExitCode::Setup
    }
}
