//! `host-command`: the bridge between a container and its host, on both sides.
//!
//! On the host `serve` takes a request (`forced` from sshd, `broker` from a socket), `request` turns it into something
//! that can be run, `runner` runs it and ends what is left of it, `audit` writes it down. In the container `shim` stands
//! in the place of a routed command, and `relay` holds the key where the agent must not.

mod audit;
mod broker;
mod check;
mod forced;
mod pump;
mod relay;
mod request;
mod runner;
mod serve;
mod setup;
pub(crate) mod shell;
pub(crate) mod shim;
mod slot;

use sandbox_core::Host;

use crate::args::Flags;
use crate::args::host_command::HostCommand;
use crate::run::Outcome;
use crate::ui::Stdio;

/// Runs a subcommand.
pub(crate) fn run(
    flags: &Flags,
    command: Option<HostCommand>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let Some(command) = command else { return Ok(super::help_of("host-command", io)) };
    match command {
        HostCommand::Serve(serve) => serve::run(&serve, host, io),
        HostCommand::Check(check) => check::run(flags, &check, host, io),
        HostCommand::Setup(setup) => setup::run(&setup, host, io),
        HostCommand::Relay(relay) => relay::run(&relay, host, io),
    }
}
