//! Finished commands, and assertions about them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use rustix::process::Signal;

use crate::caller::need;
use crate::root::Root;

/// A command with its directory and environment.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) words: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Keeps the world alive while a command runs in it.
    pub(crate) root: Arc<Root>,
}

impl Line {
    /// Builds the command. It runs in a new session (`setsid(1)`), without the terminal of the test run. `setsid` calls
    /// `execve`, so the started process is the command.
    #[track_caller]
    pub(crate) fn command(&self, setsid_flags: &[&str]) -> Command {
        let mut command = Command::new(need("setsid"));
        command.args(setsid_flags).arg("--").args(&self.words);
        command.current_dir(&self.cwd).env_clear().envs(&self.env);
        command
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ cd {}", quoted(&self.cwd.to_string_lossy()))?;
        write!(f, "$ env -i")?;
        for (name, value) in &self.env {
            write!(f, " {}={}", name.to_string_lossy(), quoted(&value.to_string_lossy()))?;
        }
        write!(f, " \\\n ")?;
        self.words.iter().try_for_each(|word| write!(f, " {}", quoted(&word.to_string_lossy())))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Finished command. Failed assertions print its whole transcript.
#[derive(Debug, Clone)]
pub struct Run {
    pub(crate) line: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Run {
    /// Asserts that the exit code is 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.code(0)
    }

    /// Asserts that the exit code is not 0. Does not accept a signal: see [`Run::killed_by`].
    #[track_caller]
    pub fn fails(self) -> Self {
        self.expect("an exit code other than 0", |run| {
            run.status.code().is_some_and(|code| code != 0)
        })
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        self.expect(&format!("exit code {code}"), |run| run.status.code() == Some(code))
    }

    /// Asserts that a signal killed the command.
    #[track_caller]
    pub fn killed_by(self, signal: Signal) -> Self {
        self.expect(&format!("death by {signal:?}"), |run| {
            run.status.signal() == Some(signal.as_raw())
        })
    }

    /// Asserts that stdout is exactly this.
    #[track_caller]
    pub fn stdout(self, text: &str) -> Self {
        self.expect(&format!("stdout to be {text:?}"), |run| run.stdout == text.as_bytes())
    }

    /// Asserts that stdout contains this.
    #[track_caller]
    pub fn stdout_contains(self, text: &str) -> Self {
        self.expect(&format!("{text:?} in stdout"), |run| run.output().contains(text))
    }

    /// Asserts that stdout does not contain this.
    #[track_caller]
    pub fn stdout_lacks(self, text: &str) -> Self {
        self.expect(&format!("no {text:?} in stdout"), |run| !run.output().contains(text))
    }

    /// Asserts that stderr is exactly this.
    #[track_caller]
    pub fn stderr(self, text: &str) -> Self {
        self.expect(&format!("stderr to be {text:?}"), |run| run.stderr == text.as_bytes())
    }

    /// Asserts that stderr contains this.
    #[track_caller]
    pub fn stderr_contains(self, text: &str) -> Self {
        self.expect(&format!("{text:?} in stderr"), |run| run.messages().contains(text))
    }

    /// Asserts that stderr does not contain this.
    #[track_caller]
    pub fn stderr_lacks(self, text: &str) -> Self {
        self.expect(&format!("no {text:?} in stderr"), |run| !run.messages().contains(text))
    }

    /// Returns stdout. On a terminal this is all output.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns stderr.
    pub fn messages(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns the exit status.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    #[track_caller]
    fn expect(self, wanted: &str, holds: impl FnOnce(&Self) -> bool) -> Self {
        assert!(holds(&self), "expected {wanted}\n{self}");
        self
    }
}

/// Transcript of the command.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n--- {}", self.line, self.status)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}\n---", self.output(), self.messages())
    }
}
