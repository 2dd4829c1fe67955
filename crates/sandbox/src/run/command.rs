//! The last step: the process becomes the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sandbox_linux::process::{ProcessHandle, Program};
use sandbox_linux::{channel, fd, signal};
use sandbox_protocol::ExitCode;
use sandbox_protocol::report;

use sandbox_policy::text::shown;

/// Runs inside bubblewrap, as the first process of the sandbox's own: becomes the command.
/// `arguments` are the channel's number, `--`, and the command. Returns the exit code of failure.
pub fn start(arguments: &[OsString], environment: &[(OsString, OsString)]) -> (ExitCode, String) {
    let [number, _, command @ ..] = arguments else {
        return (ExitCode::Setup, "no command".into());
    };
    let sender =
        number.to_str().and_then(|number| number.parse().ok()).ok_or(io::ErrorKind::InvalidInput);
    let Ok(sender) = sender.map_err(io::Error::from).and_then(fd::adopt) else {
        return (ExitCode::Setup, "this name is for the sandbox's own use".into());
    };
    // The namespace's first process, by a handle that means it wherever it is used.
    let begun = ProcessHandle::open(1)
        .and_then(|first| channel::send_with(sender.as_fd(), &[report::STARTED], &[first.as_fd()]));
    if let Err(error) = begun.and_then(|()| signal::unblock()).and_then(|()| signal::restore_pipe())
    {
        return (ExitCode::Setup, format!("cannot begin: {error}"));
    }
    become_command(command, environment)
}

/// Replaces this process by the command. Returns only on failure: the exit code, and why.
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
    // Printed inside by bubblewrap's child, and outside by us: a name that commands a terminal is shown, not obeyed.
    let name = shown(&name.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound => (ExitCode::NotFound, format!("{name} was not found")),
        _ => (ExitCode::NotExecutable, format!("{name} cannot be executed: {error}")),
    }
}

/// Tries the places that the name may mean, as a shell does; returns why none of them worked.
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
        // A closed directory in `PATH` says nothing about the command; a file without permission does.
        if candidate.is_file() {
            error = failed;
        }
    }
    error
}
