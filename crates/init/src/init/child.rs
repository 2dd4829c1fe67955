//! Step 8: starts the agent, as its user, on the terminal if there is one.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, Signal};
use sandbox_linux::process::{Program, fork};
use sandbox_linux::signal::Signals;
use sandbox_protocol::{ExitCode, Hint};

use super::settings::Settings;
use super::signals;
use super::step::{StepError, file};
use crate::arguments::CommandLine;
use crate::identity;
use crate::lookup;
use sandbox_linux::error::chain;

/// Starts the agent. Returns its process id once its program has been executed.
pub(crate) fn start(settings: &Settings, agent: &CommandLine) -> Result<i32, StepError> {
    let (mut reader, mut writer) = pipe_with(PipeFlags::CLOEXEC)
        .map(|(reader, writer)| (std::fs::File::from(reader), std::fs::File::from(writer)))
        .map_err(io::Error::from)?;
    let parent = sandbox_linux::process::pid();
    let child = fork(|| {
        let error = become_it(settings, agent, parent);
        let hint = error.hint().unwrap_or_default();
        let _ = writer.write_all(format!("{}\0{hint}", chain(&error)).as_bytes());
        ExitCode::NotFound.into()
    })?;
    drop(writer);
    // `execve` closes the pipe, which ends this read.
    let mut said = String::new();
    reader.read_to_string(&mut said)?;
    match said.split_once('\0') {
        None => Ok(child.pid()),
        Some((what, hint)) => {
            Err(StepError::Said(what.into(), Some(hint.to_owned()).filter(|hint| !hint.is_empty())))
        }
    }
}

fn become_it(settings: &Settings, agent: &CommandLine, parent: i32) -> StepError {
    match prepare(settings, agent, parent) {
        Ok((program, path)) => {
            let source = program.exec_path(path.as_os_str());
            StepError::File { what: "execute", path, source }
        }
        Err(error) => error,
    }
}

fn prepare(
    settings: &Settings,
    agent: &CommandLine,
    parent: i32,
) -> Result<(Program, PathBuf), StepError> {
    take_terminal()?;
    if rustix::process::geteuid().as_raw() == settings.user.uid {
        identity::stay()?;
    } else {
        identity::become_user(&settings.user)?;
    }
    // After the change of the user, which clears it: `PR_SET_PDEATHSIG` in prctl(2).
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(io::Error::from)?;
    if rustix::process::getppid().is_none_or(|now| now.as_raw_pid() != parent) {
        return Err(StepError::Asked(signals::TERM));
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(io::Error::from)?;
    rustix::process::chdir(&settings.workdir).map_err(file("enter", &settings.workdir))?;
    let path = lookup::find(&agent.program, settings.environment.set("PATH"))
        .map_err(|error| StepError::Said(error.to_string(), error.hint()))?;
    let argv = [path.clone().into_os_string()].into_iter().chain(agent.arguments.iter().cloned());
    let program = Program::with_entries(argv, settings.environment.entries())?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()?;
    Ok((program, path))
}

/// Creates a process group in the foreground of the container's terminal, or a session if the terminal controls none
/// yet.
fn take_terminal() -> Result<(), StepError> {
    let input = rustix::stdio::stdin();
    if !rustix::termios::isatty(input) {
        return Ok(rustix::process::setpgid(None, None).map_err(io::Error::from)?);
    }
    // Opening succeeds only for a process with a controlling terminal: tty(4).
    let controlling = std::fs::OpenOptions::new().read(true).open("/dev/tty");
    if controlling.is_err() {
        rustix::process::setsid().map_err(io::Error::from)?;
        // This fails if the terminal controls another session, which must not prevent the start.
        let _ = rustix::process::ioctl_tiocsctty(input);
        return Ok(());
    }
    rustix::process::setpgid(None, None).map_err(io::Error::from)?;
    to_foreground(input, rustix::process::getpid())
}

/// Moves a process group to the foreground. A background process that calls tcsetpgrp(3) is stopped by SIGTTOU, unless
/// it blocks that signal.
fn to_foreground(input: BorrowedFd<'_>, group: Pid) -> Result<(), StepError> {
    let _blocked = Signals::of([signals::TTOU])?;
    let _ = rustix::termios::tcsetpgrp(input, group);
    Ok(())
}
