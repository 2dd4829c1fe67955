//! The personality `entrypoint`: strips the environment, drops privileges, and executes the agent in its place.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sandbox_linux::process::Program;
use sandbox_protocol::multicall::{Personality, STARTING};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::boot::{self, Boot, BootError, Identity, Reason, Situation};
use crate::control::{ControlError, ControlFile};
use crate::environment::Environment;
use crate::identity::{self, IdentityError};
use crate::init_uid;
use crate::log::{Log, shown};
use crate::lookup::{self, LookupError};
use crate::mounts::{self, MountError};

const LOG: Log = Log(Personality::Entrypoint.word());

/// Errors with exit code 1.
#[derive(Debug, Error)]
enum Fatal {
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error(transparent)]
    Credentials(#[from] IdentityError),
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error("cannot use the working directory `{}`", shown(dir))]
    Workdir { dir: PathBuf, source: io::Error },
    #[error("cannot execute `{}`", shown(program))]
    Exec { program: PathBuf, source: io::Error },
    #[error("cannot prepare the agent")]
    System(#[from] io::Error),
}

impl Hint for Fatal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Boot(error) => return error.hint(),
            Self::Control(error) => return error.hint(),
            Self::Mounts(error) => return error.hint(),
            Self::Credentials(error) => return error.hint(),
            Self::Lookup(error) => return error.hint(),
            Self::Workdir { .. } => {
                "mount or create it so that the agent's user can enter it".to_owned()
            }
            Self::Exec { source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) =>
            {
                "a script needs a first line such as #!/bin/sh".to_owned()
            }
            Self::Exec { .. } => {
                "it must be a program that the agent's user can execute".to_owned()
            }
            Self::System(_) => return None,
        })
    }
}

/// Executes the agent. Returns only on failure.
pub(crate) fn run(words: &[OsString]) -> std::process::ExitCode {
    let Err(error) = start(words).map(|never| match never {});
    LOG.error(&error);
    ExitCode::Failure.into()
}

fn start(words: &[OsString]) -> Result<std::convert::Infallible, Fatal> {
    let core = forbid_dumps();
    let mut environment = Environment::read();
    mounts::check(&environment)?;
    mounts::restore_modes(LOG);
    take_control(&mut environment)?;
    let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
    let uid = rustix::process::geteuid().as_raw();
    let init_uid = init_uid::of(&environment);
    let situation = Situation { environment: &environment, words, uid, passwd: &passwd, init_uid };
    let boot = boot::decide(&situation)?;
    drop(environment);
    LOG.say(format_args!("{}", boot.session));
    let entered = rustix::process::chdir(&boot.workdir);
    change_identity(&boot.identity)?;
    check_workdir(&boot, entered.map_err(io::Error::from))?;
    let program = lookup::find(&boot.command.program, boot.environment.set("PATH"))?;
    let count = boot.command.arguments.len();
    LOG.say(format_args!("{STARTING} `{}` with {count} arguments", shown(&program)));
    Err(exec(&boot, &program, core))
}

/// Disables core dumps and tracing, because secrets are in memory until the agent is executed: core(5), prctl(2).
fn forbid_dumps() -> Rlimit {
    let core = rustix::process::getrlimit(Resource::Core);
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..core });
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    core
}

/// Reads and removes the control file. A missing file is only a warning, because an earlier start of the same container
/// removes it.
fn take_control(environment: &mut Environment) -> Result<(), ControlError> {
    match ControlFile::take(environment) {
        Ok(Some(file)) => file.remove(),
        Ok(None) => Ok(()),
        Err(error) if error.is_missing() => {
            LOG.warn(format_args!(
                "{}; an earlier start may have removed it",
                sandbox_linux::error::chain(&error)
            ));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn change_identity(identity: &Identity) -> Result<(), IdentityError> {
    match identity {
        Identity::Become(user) => return identity::become_user(user),
        Identity::Stay(Reason::NotRoot(uid)) => {
            LOG.warn(format_args!("running as uid {uid}, not as root; the user is not changed"));
        }
        Identity::Stay(Reason::Callers) => {}
        Identity::Stay(Reason::NoUser(error)) => {
            LOG.warn(format_args!(
                "{}; continuing as root, without capabilities",
                shown(error.to_string())
            ));
        }
        Identity::Stay(Reason::RootWanted) => {
            LOG.warn(format_args!(
                "the agent's user is root; continuing as root, without capabilities"
            ));
        }
    }
    identity::stay()
}

/// Checks the working directory as the agent's user. Root may have entered a directory that the agent cannot use, or
/// the reverse.
fn check_workdir(boot: &Boot, entered: io::Result<()>) -> Result<(), Fatal> {
    let usable = match entered {
        Ok(()) => {
            rustix::fs::access(Path::new("."), rustix::fs::Access::EXEC_OK).map_err(Into::into)
        }
        Err(error) => rustix::process::chdir(&boot.workdir).map_err(|_| error),
    };
    match usable {
        Err(source) if boot.strict => Err(Fatal::Workdir { dir: boot.workdir.clone(), source }),
        Err(error) => {
            LOG.warn(format_args!(
                "cannot use the working directory `{}`: {error}",
                shown(&boot.workdir)
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn exec(boot: &Boot, program: &Path, core: Rlimit) -> Fatal {
    match prepare(boot, program, core) {
        Ok(ready) => {
            let source = ready.exec_path(program.as_os_str());
            Fatal::Exec { program: program.to_owned(), source }
        }
        Err(error) => Fatal::System(error),
    }
}

/// Restores the attributes that the agent inherits from this process.
fn prepare(boot: &Boot, program: &Path, core: Rlimit) -> io::Result<Program> {
    let argv = [program.as_os_str().to_owned()].into_iter().chain(boot.command.arguments.clone());
    let ready = Program::with_entries(argv, boot.environment.entries())?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()?;
    // Memory contains no secrets any more.
    rustix::process::setrlimit(Resource::Core, core)?;
    Ok(ready)
}
