//! `host-command`: arguments, output and exit codes of the bridge between a container and its host. The crate
//! `sandbox-bridge` implements it.

mod check;
pub(crate) mod process;
mod relay;
mod serve;
mod setup;

use std::path::Path;

use sandbox_policy::Host;

use crate::args::Flags;
use crate::args::host_command::HostCommand;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Runs a subcommand.
pub(crate) fn run(
    flags: &Flags,
    command: Option<HostCommand>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let Some(command) = command else { return super::overview("host-command", flags, io) };
    match command {
        HostCommand::Serve(serve) => serve::run(serve, host, io),
        HostCommand::Check(check) => check::run(flags, &check, host, io),
        HostCommand::Setup(setup) => setup::run(flags, setup, host, io),
        HostCommand::Relay(relay) => relay::run(relay, host, io),
    }
}

/// Prints the socket of a server.
fn say_listening(socket: &Path, io: &mut Stdio<'_>) {
    io.say(&format!("listening on {}", socket.display()));
}
