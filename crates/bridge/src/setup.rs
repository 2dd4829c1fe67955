//! Prepares a host for requests by SSH: a user, a list, a forced command. Decided as steps, shown, then taken or undone.

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

/// Wishes for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The user that requests run as.
    pub user: String,
    /// Commands of a list that does not exist yet.
    pub allow: Vec<String>,
    /// File with a public key to let in.
    pub key: Option<PathBuf>,
    /// Addresses that the key may be used from, in sshd's words.
    pub from: Option<String>,
    /// Time until which the key may be used, in sshd's words.
    pub expires: Option<String>,
    /// Programs that the user may run as root.
    pub sudo: Vec<PathBuf>,
    /// True when the running sshd is told to read its settings again.
    pub reload_sshd: bool,
}

/// Direction of a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The steps are taken.
    Take,
    /// The steps are undone, last one first.
    Undo,
}

/// Steps that prepare a host, or undo that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    steps: Vec<Step>,
    direction: Direction,
}

/// Reason why a host is not prepared.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The caller is not root.
    #[error("only root can prepare the host")]
    NotRoot,
    /// Another user could replace this program, or cannot run it.
    #[error("`{}` cannot be the program of a login shell: {why}", exe.display())]
    Program {
        /// Its file.
        exe: PathBuf,
        /// The reason.
        why: String,
    },
    /// A value that is not accepted.
    #[error("{0}")]
    Wrong(String),
    /// The key cannot be read.
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A system call of a step failed.
    #[error("this step failed: {0}")]
    Step(String, #[source] io::Error),
    /// A program of a step failed.
    #[error("this step failed: {0}: {1}")]
    Said(String, String),
}

impl Hint for SetupError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot => Some("run it with sudo".into()),
            Self::Step(..) | Self::Said(..) => Some(
                "`agent-sandbox host-command setup --undo --yes` takes back what was done".into(),
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
    /// Decides the steps. Nothing is changed yet.
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

    /// Carries the steps out, as root.
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

/// Returns the program that carries requests out: this one, if only root can change it and every user can run it.
fn program(exe: &Path) -> Result<PathBuf, SetupError> {
    let refused = |why: String| SetupError::Program { exe: exe.to_owned(), why };
    check_owner(exe, 0).map_err(|loose| refused(loose.to_string()))?;
    let closed = exe.ancestors().find(|path| {
        let wanted = if *path == exe { 0o5 } else { 0o1 };
        std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & wanted != wanted)
    });
    if let Some(path) = closed {
        let why = format!("other users cannot get through `{}`", path.display());
        return Err(refused(why));
    }
    if !files::is_plain_path(exe) {
        return Err(refused("a shell would not read the path as it is".to_owned()));
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
        return Err(SetupError::Wrong(format!("`{name}` is no name for a user of the system")));
    }
    for entry in &options.allow {
        Entry::parse(entry).map_err(|error| SetupError::Wrong(error.to_string()))?;
    }
    match options.sudo.iter().find(|program| !files::is_plain_path(program)) {
        Some(program) => Err(SetupError::Wrong(format!(
            "`{}` is no absolute path without blanks",
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
