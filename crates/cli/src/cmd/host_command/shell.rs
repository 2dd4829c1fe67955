//! The login shell of the dedicated user: it starts the installed forced command, and nothing else whatever is asked.
//!
//! A key that was added without `command=`, a password that somebody set, `su -`: none of them leads to a shell.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use sandbox_core::host_command::{HOST_LIST, HostList, line};

/// What the link to this binary is called.
pub(crate) const NAME: &str = "agent-sandbox-shell";

/// Whether this process was started as that shell, be it for a login.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    let name =
        args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    name.is_some_and(|name| name.strip_prefix('-').unwrap_or(name) == NAME)
}

/// Becomes the forced command, or says that there is no shell.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let installed = HostList::read(Path::new(HOST_LIST)).map(|list| list.forced_command);
    let asked = match args {
        [_, flag, line] if flag == "-c" => Some(line),
        _ => None,
    };
    let message = match (installed, asked) {
        (Ok(installed), Some(asked)) if *asked == *installed => become_it(&installed),
        (Err(error), _) => format!("denied: shell\nreason: {error}"),
        _ => "denied: shell\nreason: this account only carries out host commands".into(),
    };
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(1)
}

fn become_it(installed: &str) -> String {
    match line::parse(installed.as_bytes()) {
        Ok(words) => {
            let error = Command::new(&words[0]).args(&words[1..]).exec();
            format!("agent-sandbox: cannot run `{installed}`: {error}")
        }
        Err(error) => format!("agent-sandbox: `{installed}` is no command line: {error}"),
    }
}
