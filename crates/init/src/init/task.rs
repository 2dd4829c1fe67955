//! Child processes for steps: a program, or a function in a forked process. PID 1 never blocks on a disk or a network.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use sandbox_linux::process::{Program, fork};
use sandbox_protocol::{ExitCode, Hint};

use super::step::{StepError, succeeded};
use super::supervisor::{Ending, Supervisor};
use crate::environment::Environment;
use crate::identity::{self, IdentityError};
use crate::user::User;
use sandbox_linux::error::chain;

/// A program to run to its end.
pub(crate) struct Task<'t> {
    /// Name in messages.
    pub(crate) name: &'static str,
    pub(crate) program: &'t Path,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: &'t Environment,
    pub(crate) dir: &'t Path,
    /// User and privileges.
    pub(crate) rights: Rights<'t>,
    pub(crate) limit: Duration,
}

/// User and privileges of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rights<'t> {
    /// Those of this process.
    Ours,
    /// This user, with set-user-ID programs such as `fusermount3`.
    Of(&'t User),
    /// This user, without a way to gain privileges.
    Only(&'t User),
}

impl Rights<'_> {
    fn take(self) -> Result<(), IdentityError> {
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Self::Of(user) if is_root => identity::switch(user),
            Self::Only(user) if is_root => identity::become_user(user),
            Self::Only(_) => identity::stay(),
            Self::Ours | Self::Of(_) => Ok(()),
        }
    }
}

impl Task<'_> {
    /// Runs the program and returns its standard output.
    pub(crate) fn run(self, supervisor: &mut Supervisor) -> Result<String, StepError> {
        let (reader, writer) = pipe()?;
        let child = fork(|| {
            let error = self.become_it(&writer);
            super::LOG.error(&error);
            ExitCode::NotFound.into()
        })?;
        drop(writer);
        let ended = supervisor.wait_for(child.pid(), self.limit)?;
        let output = contents(reader);
        succeeded(self.name, ended)?;
        Ok(output)
    }

    fn become_it(&self, output: &OwnedFd) -> StepError {
        let prepared = prepare(output).map_err(StepError::from).and_then(|()| {
            self.rights.take()?;
            rustix::process::chdir(self.dir).map_err(super::step::file("enter", self.dir))?;
            let argv = [self.program.as_os_str().to_owned()].into_iter();
            let argv = argv.chain(self.arguments.iter().cloned());
            Ok(Program::with_entries(argv, self.environment.entries())?)
        });
        match prepared {
            Ok(program) => {
                let source = program.exec_path(self.program.as_os_str());
                StepError::File { what: "execute", path: self.program.into(), source }
            }
            Err(error) => error,
        }
    }
}

/// Runs a function in a forked process, with the privileges of this one.
pub(crate) fn aside(
    supervisor: &mut Supervisor,
    name: &'static str,
    work: impl FnOnce() -> Result<(), StepError>,
) -> Result<(), StepError> {
    const LIMIT: Duration = Duration::from_secs(3600);
    let (reader, mut writer) = pipe().map(|(reader, writer)| (reader, File::from(writer)))?;
    let child = fork(|| {
        let done = rustix::process::setpgid(None, None).map_err(io::Error::from);
        let done = done.and_then(|()| sandbox_linux::signal::reset_for_exec());
        let Err(error) = done.map_err(StepError::from).and_then(|()| work()) else {
            return ExitCode::Success.into();
        };
        let hint = error.hint().unwrap_or_default();
        let _ = writer.write_all(format!("{}\0{hint}", chain(&error)).as_bytes());
        ExitCode::Failure.into()
    })?;
    drop(writer);
    let ended = supervisor.wait_for(child.pid(), LIMIT)?;
    let said = contents(reader);
    match (ended, said.split_once('\0')) {
        (Ok(Ending::Code(1)), Some((what, hint))) => {
            let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
            Err(StepError::Said(what.to_owned(), hint))
        }
        (ended, _) => succeeded(name, ended),
    }
}

/// Creates a pipe whose reader does not block, even if another process still has the writer open.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

fn contents(reader: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // EAGAIN means that there is no more data.
    let _ = File::from(reader).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prepares a child: a new process group, empty input, output to this process, and default signals.
fn prepare(output: &OwnedFd) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    let null: OwnedFd = OpenOptions::new().read(true).open("/dev/null")?.into();
    sandbox_linux::fd::replace(0, &null)?;
    sandbox_linux::fd::replace(1, output)?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()
}

/// Finds a program in the directory of this one, else in `PATH`.
pub(crate) fn tool(name: &'static str, path: Option<&[u8]>) -> Result<PathBuf, StepError> {
    let beside = std::fs::read_link("/proc/self/exe").ok();
    let beside = beside.and_then(|own| Some(own.parent()?.join(name)));
    if let Some(beside) = beside.filter(|beside| beside.is_file()) {
        return Ok(beside);
    }
    crate::lookup::find(OsStr::new(name), path).map_err(|_| StepError::NoProgram(name))
}
