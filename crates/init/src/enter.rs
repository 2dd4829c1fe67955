//! The personality `enter`: one more command in a container that runs. It gets what the agent got and no
//! more: the variables of the first process are gone, and so is every way to become somebody else.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sandbox_linux::process::Program;
use thiserror::Error;

use crate::credentials::{self, CredentialsError};
use crate::environment::Environment;
use crate::init::{kill, kill_group};
use crate::keeper;
use crate::log::{Log, shown};
use crate::lookup::{self, LookupError};
use crate::names;

const LOG: Log = Log("enter");
/// The codes of shells: found but not executable, and not found.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const REFUSED: u8 = 125;

#[derive(Debug, Error)]
enum Fatal {
    #[error("no command is given")]
    NoCommand,
    #[error("this is root, and only the agent's user enters")]
    Root,
    #[error("this is not the container's own root directory")]
    OtherRoot,
    #[error("cannot work in `{}`", shown(dir))]
    Workdir { dir: PathBuf, source: io::Error },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error("cannot execute `{}`", shown(program))]
    Exec { program: PathBuf, source: io::Error },
    #[error("cannot prepare the start")]
    System(#[from] io::Error),
}

impl Fatal {
    fn code(&self) -> u8 {
        match self {
            Self::Lookup(_) => NOT_FOUND,
            Self::Exec { .. } => NOT_EXECUTABLE,
            _ => REFUSED,
        }
    }
}

/// Becomes the command. Returns only on failure.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let error = become_it(words);
    LOG.error(&error, None);
    ExitCode::from(error.code())
}

/// Sends a signal to a command that has entered, and to what it has started.
pub(crate) fn signal(words: &[OsString]) -> ExitCode {
    let number = |word: &OsString| word.to_str()?.parse::<i32>().ok().filter(|n| *n > 0);
    let given: Option<Vec<i32>> = words.iter().map(number).collect();
    match given.as_deref() {
        // The first process is nobody's to end from here.
        Some([signal, pid]) if *pid > 1 && credentials::stay().is_ok() => {
            kill_group(*pid, *signal);
            kill(*pid, *signal);
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}

fn become_it(words: &[OsString]) -> Fatal {
    prepare(words).map_or_else(
        |error| error,
        |(program, path)| {
            let source = program.exec_path(path.as_os_str());
            Fatal::Exec { program: path, source }
        },
    )
}

fn prepare(words: &[OsString]) -> Result<(Program, PathBuf), Fatal> {
    let (name, arguments) = words.split_first().ok_or(Fatal::NoCommand)?;
    let environment = Environment::read();
    check_place(&environment)?;
    // A group of its own, so that its end is that of all it started; one with a terminal has it already.
    let _ = rustix::process::setsid();
    credentials::stay()?;
    if let Some(dir) = environment.word(names::AGENT_WORKDIR).map(PathBuf::from) {
        // Only here, as the agent: an engine that changed to it could still have files of the host open.
        std::env::set_current_dir(&dir).map_err(|source| Fatal::Workdir { dir, source })?;
    }
    let environment = environment.stripped();
    let path = lookup::find(OsStr::new(name), environment.set("PATH"))?;
    let argv = [name.clone()].into_iter().chain(arguments.iter().cloned());
    let program = Program::with_entries(argv, environment.entries())?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::as_a_program_expects()?;
    Ok((program, path))
}

/// An engine that puts a process into some namespaces of a container and not into its root has been seen:
/// whoever enters looks where it is.
fn check_place(environment: &Environment) -> Result<(), Fatal> {
    if rustix::process::geteuid().is_root() && keeper::number(environment).is_none() {
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
