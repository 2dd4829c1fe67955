//! Run any AI agent so that it can do its work and nothing else.

mod args;
mod run;
mod ui;
mod cmd;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sandbox_linux::memory::Allocator = sandbox_linux::memory::Allocator::new();

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    // Inside a sandbox this binary stands in for ruled commands. That comes before everything
    // else, and costs no more than one look at argv[0].
    if let Some(code) = cmd::multicall::intercept(&args) {
        return code;
    }
    if cmd::host_command::shell::is_called(&args) {
        return cmd::host_command::shell::run(&args);
    }
    let (host, mut io) = (sandbox_core::Host::read(), ui::Stdio::real());
    if cmd::sessions::supervise::is_called(&args) {
        return cmd::sessions::supervise::run(&args, &host, &mut io);
    }
    if cmd::fs::agentfs::is_called(&args) {
        return cmd::fs::agentfs::run(args, &host, &mut io);
    }
    run::run(args, &host, &mut io)
}
