//! Subject of a measurement: a command line that can run repeatedly.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox_core::render::bwrap::{Arguments, Word};
use sandbox_linux::fd;

use crate::BenchError;

/// Command line with a name.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: String,
    words: Arguments,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
}

/// Command with open descriptors.
pub(crate) struct Ready {
    pub(crate) command: Command,
    /// Descriptors that must stay open until the command has started.
    _data: Vec<OwnedFd>,
}

impl Subject {
    pub(crate) fn new(name: &str, cwd: &Path, env: &BTreeMap<OsString, OsString>) -> Self {
        let name = name.to_owned();
        Self { name, words: Arguments::default(), env: env.clone(), cwd: cwd.to_path_buf() }
    }

    /// Adds words.
    pub(crate) fn words<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        let words = words.into_iter().map(|word| Word::Text(word.as_ref().to_owned()));
        self.words.words.extend(words);
        self
    }

    /// Adds the bubblewrap arguments of a plan.
    pub(crate) fn arguments(mut self, arguments: Arguments) -> Self {
        self.words.words.extend(arguments.words);
        self.words.data = arguments.data;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Returns the command, with a new memory file for each word that is a descriptor. Reading a file moves its offset,
    /// so each run needs new ones.
    pub(crate) fn ready(&self) -> Result<Ready, BenchError> {
        let mut data = Vec::new();
        for content in &self.words.data {
            let file = fd::memory_file(&content.name, &content.content)?;
            fd::inherit(file.as_fd())?;
            data.push(file);
        }
        let mut words = self.words.words.iter().map(|word| match word {
            Word::Text(text) => text.clone(),
            Word::Data(index) => data[*index].as_raw_fd().to_string().into(),
        });
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear().envs(&self.env).current_dir(&self.cwd);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Ready { command, _data: data })
    }

    /// Runs the command once. Fails with its error output.
    pub(crate) fn works(&self) -> Result<(), BenchError> {
        let started = |error| BenchError::Start(self.name.clone(), error);
        let output = self.ready()?.command.stderr(Stdio::piped()).output().map_err(started)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(BenchError::Fails(self.name.clone(), format!("{} ({said})", output.status)))
    }
}
