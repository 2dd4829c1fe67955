//! The last step: the process becomes the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sandbox_linux::process::{ProcessHandle, Program};
use sandbox_linux::{channel, clock, fd, signal};
use sandbox_protocol::ExitCode;
use sandbox_protocol::report;

use sandbox_policy::text::shown;

/// Becomes the command, in the process that bubblewrap starts inside the sandbox. `arguments` are the descriptor of the
/// channel, the moment at which the record of the run was complete, `--` and the command. Returns only on failure.
pub fn start(arguments: &[OsString], environment: &[(OsString, OsString)]) -> (ExitCode, String) {
    let [number, moment, _, command @ ..] = arguments else {
        return (ExitCode::Setup, "no command".into());
    };
    let sender =
        number.to_str().and_then(|number| number.parse().ok()).ok_or(io::ErrorKind::InvalidInput);
    let Ok(sender) = sender.map_err(io::Error::from).and_then(fd::adopt) else {
        return (ExitCode::Setup, "this is an internal command of agent-sandbox".into());
    };
    // A pidfd of the namespace's PID 1. Unlike the PID, it is valid in the supervisor's namespace too.
    let started = ProcessHandle::open(1)
        .and_then(|first| channel::send_with(sender.as_fd(), &[report::STARTED], &[first.as_fd()]));
    if let Err(error) =
        started.and_then(|()| signal::unblock()).and_then(|()| signal::restore_pipe())
    {
        return (ExitCode::Setup, format!("cannot start the command: {error}"));
    }
    // Any later change has a later timestamp than files that changed before the run.
    clock::wait_for_timestamps(moment.to_str().and_then(|moment| moment.parse().ok()).unwrap_or(0));
    become_command(command, environment)
}

/// Replaces this process by the command. Returns only on failure, with the exit code and the message.
pub fn become_command(
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> (ExitCode, String) {
    let Some(name) = command.first() else { return (ExitCode::Setup, "no command".into()) };
    let variables = environment.iter().map(|(name, value)| (name, value));
    let error = match Program::new(command.iter().cloned(), variables) {
        Ok(program) => search(name, environment, &program),
        Err(error) => error,
    };
    // The message goes to a terminal, inside or outside. `shown` escapes control sequences in the name.
    let name = shown(&name.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound => (ExitCode::NotFound, format!("command not found: {name}")),
        _ => (ExitCode::NotExecutable, format!("cannot execute {name}: {error}")),
    }
}

/// Executes the name, or searches it in `PATH` as a shell does. Returns the error if no candidate can be executed.
fn search(name: &OsStr, environment: &[(OsString, OsString)], program: &Program) -> io::Error {
    if name.as_bytes().contains(&b'/') {
        return program.exec_path(name);
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for dir in std::env::split_paths(&path.unwrap_or_default()) {
        let candidate =
            if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        let failed = program.exec_path(candidate.as_os_str());
        // An unreadable directory in `PATH` is no error of the command. A file that cannot be executed is.
        if candidate.is_file() {
            error = failed;
        }
    }
    error
}
