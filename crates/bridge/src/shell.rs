//! The login shell of the dedicated user, which only starts the installed forced command.
//!
//! A key without `command=`, a password, or `su -` therefore never leads to a shell.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;

use sandbox_policy::config::command::line;

use crate::list::{HOST_LIST, HostList};

/// Name of the link to this binary.
const NAME: &str = "agent-sandbox-shell";

/// Returns true if this process was started as that shell, including as a login shell.
pub fn is_called(args: &[OsString]) -> bool {
    let name =
        args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    name.is_some_and(|name| name.strip_prefix('-').unwrap_or(name) == NAME)
}

/// Executes the forced command. Returns a message if that fails or if another command was requested.
pub fn run(args: &[OsString]) -> String {
    let installed = HostList::read_enforced(Path::new(HOST_LIST)).map(|list| list.forced_command);
    let asked = match args {
        [_, flag, line] if flag == "-c" => Some(line),
        _ => None,
    };
    match (installed, asked) {
        (Ok(installed), Some(asked)) if *asked == *installed => become_it(&installed),
        (Err(error), _) => format!("denied: shell\nreason: {error}"),
        _ => "denied: shell\nreason: this account only runs host commands".into(),
    }
}

fn become_it(installed: &str) -> String {
    match line::parse(installed.as_bytes()) {
        Ok(words) => {
            let error = sandbox_linux::process::command(&words[0]).args(&words[1..]).exec();
            format!("agent-sandbox: cannot run `{installed}`: {error}")
        }
        Err(error) => format!("agent-sandbox: invalid command line `{installed}`: {error}"),
    }
}
