//! The personality `entrypoint`: strip, drop, exec. Nothing is left behind: the agent is this process.

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

/// What ends it with code 1.
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
    #[error("cannot prepare the start")]
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
                "mount or make it so that the agent's user can enter it".to_owned()
            }
            Self::Exec { source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) =>
            {
                "a script needs a first line like #!/bin/sh; no shell is tried in its place"
                    .to_owned()
            }
            Self::Exec { .. } => {
                "it must be a program that the agent's user may execute".to_owned()
            }
            Self::System(_) => return None,
        })
    }
}

/// Becomes the agent. Returns only on failure.
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

/// Secrets are in memory until the agent takes this process over: no dump of it may hold them.
fn forbid_dumps() -> Rlimit {
    let core = rustix::process::getrlimit(Resource::Core);
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..core });
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    core
}

/// An earlier start of the same container has read and removed the file; that is no reason not to start.
fn take_control(environment: &mut Environment) -> Result<(), ControlError> {
    match ControlFile::take(environment) {
        Ok(Some(file)) => file.remove(),
        Ok(None) => Ok(()),
        Err(error) if error.is_missing() => {
            LOG.warn(format_args!(
                "{}; an earlier start may have taken it",
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
            LOG.warn(format_args!("not running as root but as user id {uid}: stays this user"));
        }
        Identity::Stay(Reason::Callers) => {}
        Identity::Stay(Reason::NoUser(error)) => {
            LOG.warn(format_args!(
                "{}: continues as root, without capabilities",
                shown(error.to_string())
            ));
        }
        Identity::Stay(Reason::RootWanted) => {
            LOG.warn(format_args!(
                "the agent's user is root: continues as root, without capabilities"
            ));
        }
    }
    identity::stay()
}

/// Root may have entered a directory that the agent cannot use, or the other way round.
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

/// What of this process would show in the agent's is as the agent expects it.
fn prepare(boot: &Boot, program: &Path, core: Rlimit) -> io::Result<Program> {
    let argv = [program.as_os_str().to_owned()].into_iter().chain(boot.command.arguments.clone());
    let ready = Program::with_entries(argv, boot.environment.entries())?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()?;
    // The secrets are gone: `boot` holds none.
    rustix::process::setrlimit(Resource::Core, core)?;
    Ok(ready)
}
