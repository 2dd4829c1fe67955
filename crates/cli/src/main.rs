//! Run any AI agent so that it can do its work and nothing else.

mod args;
mod failed;
mod run;
mod ui;
mod events;
mod cmd;

#[cfg(feature = "docker")]
use std::io::Write;
use std::process::ExitCode;

#[cfg(feature = "docker")]
use sandbox_bridge::{process::Process, shell};

#[global_allocator]
static ALLOCATOR: sandbox_linux::memory::Allocator = sandbox_linux::memory::Allocator::new();

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    // Inside a sandbox this binary replaces commands that have rules. This check comes first because every such command
    // starts with it. It only reads argv[0].
    if let Some(code) = cmd::multicall::intercept(&args) {
        return code;
    }
    #[cfg(feature = "docker")]
    if shell::is_called(&args) {
        let _ = writeln!(std::io::stderr(), "{}", shell::run(&args));
        return ExitCode::from(1);
    }
    sandbox_linux::signal::reset_sigchld();
    let (host, mut io) = (sandbox_policy::Host::read(), ui::Stdio::real());
    #[cfg(feature = "docker")]
    if let Some(process) = Process::of_args(&args) {
        return cmd::host_command::process::run(&process, &host, &mut io);
    }
    #[cfg(feature = "sessions")]
    if cmd::sessions::supervise::is_called(&args) {
        return cmd::sessions::supervise::run(&args, &host, &mut io);
    }
    #[cfg(feature = "layers")]
    if cmd::fs::agentfs::is_called(&args) {
        return cmd::fs::agentfs::run(args, &host, &mut io);
    }
    run::run(args, &host, &mut io)
}
