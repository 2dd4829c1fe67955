//! The personality `enter`: runs another command in a running container, with the environment of the agent and without
//! the control variables of PID 1. The command cannot change its user or gain privileges.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::process::Program;
use sandbox_protocol::multicall::Personality;
use sandbox_protocol::variable;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::environment::Environment;
use crate::identity::{self, IdentityError};
use crate::init_uid;
use crate::log::{Log, shown};
use crate::lookup::{self, LookupError};

pub(crate) const LOG: Log = Log(Personality::Enter.word());

#[derive(Debug, Error)]
pub(crate) enum Fatal {
    #[error("no command given")]
    NoCommand,
    #[error("cannot enter as root, only as the agent's user")]
    Root,
    #[error("the root directory of this process is not that of the container")]
    OtherRoot,
    #[error("cannot change to the directory `{}`", shown(dir))]
    Workdir { dir: PathBuf, source: io::Error },
    #[error(transparent)]
    Credentials(#[from] IdentityError),
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error("cannot execute `{}`", shown(program))]
    Exec { program: PathBuf, source: io::Error },
    #[error("cannot prepare the command")]
    System(#[from] io::Error),
}

impl Hint for Fatal {}

impl Fatal {
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Lookup(_) => ExitCode::NotFound,
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ExitCode::NotFound
            }
            Self::Exec { .. } => ExitCode::NotExecutable,
            _ => ExitCode::Setup,
        }
    }
}

/// Executes the command. Returns only on failure.
pub(crate) fn run(words: &[OsString]) -> std::process::ExitCode {
    let error = become_it(words);
    LOG.error(&error);
    error.code().into()
}

fn become_it(words: &[OsString]) -> Fatal {
    let (program, path) = match prepare(words) {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    let ready = sandbox_linux::fd::close_all_on_exec()
        .and_then(|()| sandbox_linux::signal::reset_for_exec());
    match ready {
        Ok(()) => Fatal::Exec { source: program.exec_path(path.as_os_str()), program: path },
        Err(error) => Fatal::System(error),
    }
}

/// Gives up all privileges, changes to the working directory, and finds the program.
pub(crate) fn prepare(words: &[OsString]) -> Result<(Program, PathBuf), Fatal> {
    let (name, arguments) = words.split_first().ok_or(Fatal::NoCommand)?;
    let environment = Environment::read();
    check_place(&environment)?;
    // With a separate session, all its processes can be ended together. A command with a terminal leads one already.
    let _ = rustix::process::setsid();
    identity::stay()?;
    if let Some(dir) = environment.word(variable::AGENT_WORKDIR).map(PathBuf::from) {
        // The directory is entered here, as the agent, and not by the container engine, which could still have files of
        // the host open (CVE-2024-21626).
        std::env::set_current_dir(&dir).map_err(|source| Fatal::Workdir { dir, source })?;
    }
    let environment = environment.stripped();
    let path = lookup::find(OsStr::new(name), environment.set("PATH"))?;
    let argv = [name.clone()].into_iter().chain(arguments.iter().cloned());
    let program = Program::with_entries(argv, environment.entries())?;
    Ok((program, path))
}

/// Checks that this process is in the container's root directory. Some container engines enter the namespaces of a
/// container without its root directory.
fn check_place(environment: &Environment) -> Result<(), Fatal> {
    if rustix::process::geteuid().is_root() && init_uid::of(environment).is_none() {
        return Err(Fatal::Root);
    }
    let own = std::fs::read_link("/proc/self/exe")?;
    let is_ours = rustix::fs::stat(&own).ok().zip(rustix::fs::stat("/proc/self/exe").ok());
    let same = is_ours
        .is_some_and(|(here, this)| (here.st_dev, here.st_ino) == (this.st_dev, this.st_ino));
    let cwd = std::fs::read_link("/proc/self/cwd")?;
    if !same || !cwd.starts_with("/") || cwd.starts_with("/proc") {
        return Err(Fatal::OtherRoot);
    }
    let root = std::fs::read_link("/proc/self/root")?;
    if root == Path::new("/") { Ok(()) } else { Err(Fatal::OtherRoot) }
}
