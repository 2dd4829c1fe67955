//! Preparation of a host for requests over SSH: a user, a list, a forced command. The steps are planned and shown
//! first.

mod files;
mod step;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_policy::config::command::Entry;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::list::owner::check_owner;
use crate::list::{FORCED_COMMAND, HOST_LIST};
use crate::ssh::authorized;
use step::Step;

/// Options of a set-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// User that requests run as.
    pub user: String,
    /// Commands for a new list.
    pub allow: Vec<String>,
    /// File with a public key to authorize.
    pub key: Option<PathBuf>,
    /// Addresses from which the key is accepted, as an sshd pattern list.
    pub from: Option<String>,
    /// Expiry time of the key, in sshd's format.
    pub expires: Option<String>,
    /// Programs that the user may run as root with sudo.
    pub sudo: Vec<PathBuf>,
    /// True to make the running sshd reload its configuration.
    pub reload_sshd: bool,
}

/// Direction of a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Carry out the steps.
    Take,
    /// Undo the steps in reverse order.
    Undo,
}

/// Steps that prepare a host, or undo that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    steps: Vec<Step>,
    direction: Direction,
}

/// Reason why a host cannot be prepared.
#[derive(Debug, Error)]
pub enum SetupError {
    /// Caller is not root.
    #[error("only root can prepare the host")]
    NotRoot,
    /// Another user could replace this program, or cannot run it.
    #[error("cannot use `{}` as a login shell: {why}", exe.display())]
    Program {
        /// Its file.
        exe: PathBuf,
        /// Cause.
        why: String,
    },
    /// Invalid value.
    #[error("{0}")]
    Wrong(String),
    /// Key that cannot be read.
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Failed system call of a step.
    #[error("this step failed: {0}")]
    Step(String, #[source] io::Error),
    /// Failed program of a step.
    #[error("this step failed: {0}: {1}")]
    Said(String, String),
}

impl Hint for SetupError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot => Some("run it with sudo".into()),
            Self::Step(..) | Self::Said(..) => Some(
                "to undo the completed steps: `agent-sandbox host-command setup --undo --yes`"
                    .into(),
            ),
            Self::Program { exe, .. } => Some(format!(
                "install it first: `sudo install -D {} {}`, then run `sudo {} host-command setup`",
                exe.display(),
                files::BINARY,
                files::BINARY
            )),
            Self::Wrong(_) | Self::Read(..) => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

impl Setup {
    /// Plans the steps without changing anything.
    pub fn plan(options: &Options, direction: Direction, host: &Host) -> Result<Self, SetupError> {
        let mut steps = match direction {
            Direction::Take => plan(options, &program(&host.exe)?)?,
            Direction::Undo => plan(options, Path::new(files::BINARY))?,
        };
        if direction == Direction::Undo {
            steps.reverse();
        }
        Ok(Self { steps, direction })
    }

    /// Returns a description of each step.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.steps.iter().map(|step| match self.direction {
            Direction::Take => step.text(),
            Direction::Undo => step.undo_text(),
        })
    }

    /// Carries out the steps; fails unless run by root.
    pub fn carry_out(&self, host: &Host) -> Result<(), SetupError> {
        if host.uid != 0 {
            return Err(SetupError::NotRoot);
        }
        self.steps.iter().try_for_each(|step| match self.direction {
            Direction::Take => step.take(),
            Direction::Undo => step.undo(),
        })
    }
}

/// Returns the program that carries out requests: this one, if only root can change it and every user can run it.
fn program(exe: &Path) -> Result<PathBuf, SetupError> {
    let refused = |why: String| SetupError::Program { exe: exe.to_owned(), why };
    check_owner(exe, 0).map_err(|loose| refused(loose.to_string()))?;
    let closed = exe.ancestors().find(|path| {
        let wanted = if *path == exe { 0o5 } else { 0o1 };
        std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & wanted != wanted)
    });
    if let Some(path) = closed {
        let why = format!("other users cannot access `{}`", path.display());
        return Err(refused(why));
    }
    if !files::is_plain_path(exe) {
        return Err(refused(
            "its path contains characters that a shell would interpret".to_owned(),
        ));
    }
    Ok(exe.to_owned())
}

fn plan(options: &Options, program: &Path) -> Result<Vec<Step>, SetupError> {
    check(options)?;
    let name = &options.user;
    let mut steps = vec![
        Step::Link { path: files::SHELL.into(), target: program.to_owned() },
        Step::User { name: name.clone(), home: files::home(name), shell: files::SHELL.into() },
        Step::keep(HOST_LIST, files::list(&options.allow), 0o644),
        Step::file(FORCED_COMMAND, files::wrapper(program), 0o755),
        Step::Sshd { path: files::sshd(name), text: files::sshd_text(name) },
    ];
    if let Some(key) = &options.key {
        let line = key_line(key, options)?;
        steps.push(Step::Key { home: files::home(name), line });
    }
    if !options.sudo.is_empty() {
        steps.push(Step::Sudoers {
            path: files::sudoers(name),
            text: files::sudoers_text(name, &options.sudo),
        });
    }
    steps.push(Step::CheckSshd { reload: options.reload_sshd });
    Ok(steps)
}

fn check(options: &Options) -> Result<(), SetupError> {
    let name = &options.user;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(plain)
        || name.len() > 32
    {
        return Err(SetupError::Wrong(format!("invalid user name `{name}`")));
    }
    for entry in &options.allow {
        Entry::parse(entry).map_err(|error| SetupError::Wrong(error.to_string()))?;
    }
    match options.sudo.iter().find(|program| !files::is_plain_path(program)) {
        Some(program) => Err(SetupError::Wrong(format!(
            "invalid path `{}`: expected an absolute path without spaces or special characters",
            program.display()
        ))),
        None => Ok(()),
    }
}

fn key_line(key: &Path, options: &Options) -> Result<String, SetupError> {
    let text =
        std::fs::read_to_string(key).map_err(|error| SetupError::Read(key.to_owned(), error))?;
    authorized::line(&text, options.from.as_deref(), options.expires.as_deref())
        .map_err(|error| SetupError::Wrong(error.to_string()))
}
