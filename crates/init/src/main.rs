//! PID 1 of a container.
//!
//! One static binary has several personalities, which are selected by its name or by the first argument. `entrypoint`
//! strips the environment, gives up root and executes the agent. `init` also sets up the agent's home and workspace,
//! then stays to forward signals, reap children and shut down. `enter` runs another command, and `check` inspects the
//! image from inside.

mod log;
mod personality;
mod environment;
mod init_uid;
mod control;
mod mounts;
mod user;
mod arguments;
mod boot;
mod lookup;
mod identity;
mod entrypoint;
mod init;
mod enter;
mod attend;
mod check;

use sandbox_protocol::ExitCode;
use sandbox_protocol::multicall::Personality;

fn main() -> std::process::ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    match personality::of(&words) {
        Ok((Personality::Entrypoint, words)) => entrypoint::run(words),
        Ok((Personality::Init, words)) => init::run(words),
        Ok((Personality::Enter, words)) => enter::run(words),
        Ok((Personality::Attend, words)) => attend::run(words),
        Ok((Personality::Signal, words)) => attend::signal(words),
        Ok((Personality::Guard, words)) => attend::guard(words),
        Ok((Personality::Check, words)) => check::run(words),
        Err(usage) => {
            log::plain(&usage.to_string());
            ExitCode::Usage.into()
        }
    }
}
