//! Launcher: this binary in place of commands that have rules, and as the first process inside.

use std::ffi::OsString;
use std::io::Write;

#[cfg(feature = "docker")]
use sandbox_bridge::shim;
use sandbox_core::run::start;
use sandbox_core::wrapper::launcher::{self, Launch};
use sandbox_protocol::ExitCode;
#[cfg(feature = "sessions")]
use sandbox_protocol::multicall::SERVE;
use sandbox_protocol::multicall::START;
#[cfg(feature = "sessions")]
use sandbox_sessions::backend::local::server::serve;

/// Runs the program that `argv[0]` names. Returns `None` when that is agent-sandbox.
pub(crate) fn intercept(args: &[OsString]) -> Option<std::process::ExitCode> {
    let launch = launcher::intercept(args);
    #[cfg(feature = "docker")]
    if let Some(code) = sent(args, launch.as_ref()) {
        return Some(code);
    }
    let (code, message) = match launch? {
        Launch::Exec(exec) => {
            let refusal = exec.run();
            (refusal.code, refusal.message)
        }
        Launch::Refuse(refusal) => (refusal.code, refusal.message),
        Launch::Internal { name, rest } if name == START => {
            let environment: Vec<_> = std::env::vars_os().collect();
            let (code, message) = start(&rest, &environment);
            (code, format!("error: {message}"))
        }
        #[cfg(feature = "sessions")]
        Launch::Internal { name, rest } if name == SERVE => {
            let environment: Vec<_> = std::env::vars_os().collect();
            match serve(&rest, &environment) {
                (ExitCode::Success, _) => return Some(ExitCode::Success.into()),
                (code, message) => (code, format!("error: {message}")),
            }
        }
        Launch::Internal { name, .. } => {
            (ExitCode::Setup, format!("agent-sandbox: unknown entry `{}`", name.display()))
        }
    };
    let _ = writeln!(std::io::stderr(), "{message}");
    Some(code.into())
}

/// Sends a command to the host, if its rule allows that. A rule that blocks it or runs a script takes precedence.
#[cfg(feature = "docker")]
fn sent(args: &[OsString], launch: Option<&Launch>) -> Option<std::process::ExitCode> {
    let passes = match launch {
        None => true,
        Some(Launch::Exec(exec)) => !exec.is_script(),
        Some(_) => false,
    };
    if !passes {
        return None;
    }
    let sent = shim::intercept(args, launch.is_some())?;
    Some(std::process::ExitCode::from(sent.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "agent-sandbox: {error}");
        error.exit_code().code()
    })))
}
