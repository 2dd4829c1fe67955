//! A command that has ended, and what a test may say about it.

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

/// What is to be run, where, and with which environment.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) words: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// The world lives as long as a command in it.
    pub(crate) root: Arc<Root>,
}

impl Line {
    /// The command, in a session of its own: it never meets the terminal of whoever runs the tests.
    /// `setsid` replaces itself, so that the process that is started is the command.
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

/// A command that has ended. Every assertion that fails prints the whole transcript.
#[derive(Debug, Clone)]
pub struct Run {
    pub(crate) line: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Run {
    /// It ended with 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.code(0)
    }

    /// It ended with a code other than 0. Death by a signal is no such end: see [`Run::killed_by`].
    #[track_caller]
    pub fn fails(self) -> Self {
        self.expect("an exit code other than 0", |run| {
            run.status.code().is_some_and(|code| code != 0)
        })
    }

    /// It ended with this code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        self.expect(&format!("exit code {code}"), |run| run.status.code() == Some(code))
    }

    /// A signal ended it.
    #[track_caller]
    pub fn killed_by(self, signal: Signal) -> Self {
        self.expect(&format!("death by {signal:?}"), |run| {
            run.status.signal() == Some(signal.as_raw())
        })
    }

    /// Its output is exactly this.
    #[track_caller]
    pub fn stdout(self, text: &str) -> Self {
        self.expect(&format!("stdout to be {text:?}"), |run| run.stdout == text.as_bytes())
    }

    /// Its output has this in it.
    #[track_caller]
    pub fn stdout_contains(self, text: &str) -> Self {
        self.expect(&format!("{text:?} in stdout"), |run| run.output().contains(text))
    }

    /// Its output does not have this in it.
    #[track_caller]
    pub fn stdout_lacks(self, text: &str) -> Self {
        self.expect(&format!("no {text:?} in stdout"), |run| !run.output().contains(text))
    }

    /// Its messages are exactly this.
    #[track_caller]
    pub fn stderr(self, text: &str) -> Self {
        self.expect(&format!("stderr to be {text:?}"), |run| run.stderr == text.as_bytes())
    }

    /// Its messages have this in them.
    #[track_caller]
    pub fn stderr_contains(self, text: &str) -> Self {
        self.expect(&format!("{text:?} in stderr"), |run| run.messages().contains(text))
    }

    /// Its messages do not have this in them.
    #[track_caller]
    pub fn stderr_lacks(self, text: &str) -> Self {
        self.expect(&format!("no {text:?} in stderr"), |run| !run.messages().contains(text))
    }

    /// What it wrote to stdout; on a terminal, everything it wrote.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it wrote to stderr.
    pub fn messages(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// How it ended.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    #[track_caller]
    fn expect(self, wanted: &str, holds: impl FnOnce(&Self) -> bool) -> Self {
        assert!(holds(&self), "expected {wanted}\n{self}");
        self
    }
}

/// The transcript.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n--- {}", self.line, self.status)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}\n---", self.output(), self.messages())
    }
}
