//! Exit codes. The manual page and `docs/reference/exit-codes.md` list them, and a test runs every example.

use std::fmt;

/// Line about an exit code in the manual page and in `docs/reference/exit-codes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The code.
    pub code: u8,
    /// What ended with it.
    pub meaning: &'static str,
    /// Words after `agent-sandbox` of a command that ends with it.
    pub example: &'static [&'static str],
}

/// Defines the enum and its rows from one list.
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
    /// Everything was done.
    Success = 0 {
        "the command succeeded": ["true"],
    }
    /// The answer is no, or not everything was done.
    Failure = 1 {
        "`check`, outside a sandbox": ["check"],
        "a command that a rule blocks": ["--cmd", "id=false", "id"],
        "`diff`, `apply`, `undo` or `discard` that cannot do all it was asked": ["diff"],
    }
    /// The command line is wrong.
    Usage = 2 {
        "the command line is wrong": ["--no-such-flag"],
    }
    /// The policy refused an access under `--fail-on-blocked`.
    Blocked = 4 {
        "something was refused under `--fail-on-blocked`, although the command succeeded": [
            "--fail-on-blocked",
            "--allow-host",
            "a.example.com",
            "sh",
            "-c",
            "getent hosts b.example.com || true",
        ],
    }
    /// The sandbox could not be set up.
    Setup = 125 {
        "the sandbox could not be set up": ["--config", "missing.json", "true"],
    }
    /// The command cannot be executed.
    NotExecutable = 126 {
        "the command cannot be executed": ["/etc/passwd"],
    }
    /// The command was not found.
    NotFound = 127 {
        "the command was not found": ["no-such-command"],
    }
}

/// Codes of commands, which are not ours.
const PASSED_THROUGH: [Row; 2] = [
    Row { code: 7, meaning: "the command's own code", example: &["sh", "-c", "exit 7"] },
    Row {
        code: 143,
        meaning: "128 and the signal that ended the command: 15 is TERM",
        example: &["sh", "-c", "kill -TERM $$"],
    },
];

/// Returns all lines about exit codes, in the order of the codes.
pub fn rows() -> Vec<Row> {
    let mut rows = [ROWS, &PASSED_THROUGH].concat();
    rows.sort_by_key(|row| row.code);
    rows
}

/// Returns the code of a command that a signal ended, as shells do.
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
    fn rows_are_in_the_order_of_codes_and_hold_each_line_once() {
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
