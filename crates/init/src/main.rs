//! The first process of a container.
//!
//! Two personalities of one static binary, chosen by the name it is called by: `entrypoint` strips the
//! environment, gives up root and is replaced by the agent; `init` also sets up the agent's home and
//! workspace, stays, forwards signals, reaps, and shuts down. `enter` starts one more command, `check` looks at an image from inside.

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
