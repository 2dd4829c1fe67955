//! The launcher: this binary in the place of ruled commands, and the first step inside.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use sandbox_control::backend::bwrap::server::{SERVE, serve};
use sandbox_core::exec::{START, start};
use sandbox_core::wrapper::launcher::{self, Launch};

use super::host_command::shim;

/// Does what the name this process was called by asks for; `None` when it was called as itself.
pub(crate) fn intercept(args: &[OsString]) -> Option<ExitCode> {
    let launch = launcher::intercept(args);
    // A rule that refuses or runs a script comes first; what it would let through may belong to the host.
    let passes = match &launch {
        None => true,
        Some(Launch::Exec(exec)) => !exec.is_script(),
        Some(_) => false,
    };
    if passes && let Some(code) = shim::intercept(args, launch.is_some()) {
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
        Launch::Internal { name, rest } if name == SERVE => {
            let environment: Vec<_> = std::env::vars_os().collect();
            match serve(&rest, &environment) {
                (0, _) => return Some(ExitCode::SUCCESS),
                (code, message) => (code, format!("error: {message}")),
            }
        }
        Launch::Internal { name, .. } => {
            (125, format!("agent-sandbox: no entry `{}`", name.display()))
        }
    };
    let _ = writeln!(std::io::stderr(), "{message}");
    Some(ExitCode::from(code))
}
