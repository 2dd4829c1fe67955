//! Programs that tasks run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::say::{Context, Failure, Outcome, say};

/// Returns true when this process runs as root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Returns a command that runs as root: directly, or through sudo.
pub(crate) fn as_root(program: impl AsRef<OsStr>) -> Command {
    if is_root() {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.arg(program);
    sudo
}

/// Returns a command that the kernel ends when the thread that started it is gone. Execution of sudo undoes that.
pub(crate) fn mortal(program: impl AsRef<OsStr>) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--pdeathsig", "TERM", "--"]).arg(program);
    setpriv
}

/// Names a command as its user would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

fn failed(command: &Command) -> Failure {
    Failure::new(format!("failed: {}", line(command)))
}

/// Runs a command whose output the reader sees.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.stdin(Stdio::null()).status().context(line(command))?;
    if status.success() { Ok(()) } else { Err(failed(command)) }
}

/// Runs a command after a line that names it.
pub(crate) fn step(command: &mut Command) -> Outcome {
    say(format_args!("== {}", line(command)));
    run(command)
}

/// Runs a command whose output is shown only when it fails.
pub(crate) fn quietly(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().context(line(command))?;
    if output.status.success() {
        return Ok(());
    }
    say(String::from_utf8_lossy(&output.stdout).trim_end());
    say(String::from_utf8_lossy(&output.stderr).trim_end());
    Err(failed(command))
}

/// Returns true when a command succeeds, whatever it prints.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the standard output of a command.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context(line(command))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(command))
    }
}

/// Creates a directory with a unique name: `/var/tmp/as-docker.XXXXXX`.
pub(crate) fn temporary(template: &str) -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(output(Command::new("mktemp").args(["--directory", template]))?.trim_end()))
}

/// Copies a file with the permissions of a program.
pub(crate) fn install(from: &Path, to: &Path) -> Outcome {
    run(Command::new("install").arg(from).arg(to))
}
