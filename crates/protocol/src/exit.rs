//! Exit codes. The manual page and `docs/reference/exit-codes.md` list them, and a test runs every example.

use std::fmt;

/// Exit code as the manual page and `docs/reference/exit-codes.md` list it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The code.
    pub code: u8,
    /// Situation that it reports.
    pub meaning: &'static str,
    /// Arguments of an `agent-sandbox` command that exits with it.
    pub example: &'static [&'static str],
}

/// Defines the enum and its rows together.
macro_rules! exit_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal { $($meaning:literal: $example:expr,)+ })+) => {
        /// Exit code of agent-sandbox. The code of a command that ran passes through instead.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum ExitCode {
            $($(#[$doc])* $name = $code,)+
        }

        const ROWS: &[Row] = &[
            $($(Row { code: $code, meaning: $meaning, example: &$example },)+)+
        ];
    };
}

exit_codes! {
    /// Success.
    Success = 0 {
        "the command succeeded": ["true"],
    }
    /// Negative answer, or incomplete work.
    Failure = 1 {
        "`check`, outside a sandbox": ["check"],
        "a command that a rule blocks": ["--cmd", "id=false", "id"],
        "`diff`, `apply`, `undo` or `discard` did not complete": ["diff"],
    }
    /// Invalid command line.
    Usage = 2 {
        "invalid command line": ["--no-such-flag"],
    }
    /// Access refused by the policy under `--fail-on-blocked`.
    Blocked = 4 {
        "the command succeeded, but an access was refused under `--fail-on-blocked`": [
            "--fail-on-blocked",
            "--allow-host",
            "a.example.com",
            "sh",
            "-c",
            "getent hosts b.example.com || true",
        ],
    }
    /// Failure to set up the sandbox.
    Setup = 125 {
        "cannot set up the sandbox": ["--config", "missing.json", "true"],
    }
    /// Command that cannot be executed.
    NotExecutable = 126 {
        "the command cannot be executed": ["/etc/passwd"],
    }
    /// Command that was not found.
    NotFound = 127 {
        "the command was not found": ["no-such-command"],
    }
}

/// Exit codes that come from the command.
const PASSED_THROUGH: [Row; 2] = [
    Row { code: 7, meaning: "the command's own exit code", example: &["sh", "-c", "exit 7"] },
    Row {
        code: 143,
        meaning: "128 plus the signal that killed the command (15 is SIGTERM)",
        example: &["sh", "-c", "kill -TERM $$"],
    },
];

/// Returns all exit codes in ascending order.
pub fn rows() -> Vec<Row> {
    let mut rows = [ROWS, &PASSED_THROUGH].concat();
    rows.sort_by_key(|row| row.code);
    rows
}

/// Returns the exit code that shells use for a command killed by a signal.
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

impl ExitCode {
    /// Returns the number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns [`Self::Failure`] when something failed.
    pub const fn failed_if(failed: bool) -> Self {
        if failed { Self::Failure } else { Self::Success }
    }
}

impl From<ExitCode> for u8 {
    fn from(code: ExitCode) -> Self {
        code.code()
    }
}

impl From<ExitCode> for i32 {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_complete() {
        let rows = rows();
        assert!(rows.is_sorted_by_key(|row| row.code), "{rows:?}");
        assert_eq!(rows.len(), ROWS.len() + PASSED_THROUGH.len());
        assert_eq!(PASSED_THROUGH[1].code, by_signal(15));
    }

    #[test]
    fn by_signal_counts_from_128() {
        for (signal, code) in
            [(1, 129), (9, 137), (64, 192), (127, 255), (128, 255), (i32::MAX, 255)]
        {
            assert_eq!(by_signal(signal), code, "{signal}");
        }
    }
}
