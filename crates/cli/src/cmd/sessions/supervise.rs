//! The process of a session outside: the same run as that of any command, with our own binary as the
//! command, which starts others on request.

use std::ffi::OsString;
use std::process::ExitCode;

use sandbox_control::Place;
use sandbox_control::backend::bwrap::{SUPERVISE, policy, server, shape, supervisor};
use sandbox_control::session::Session;
use sandbox_core::Host;
use sandbox_core::config;

use super::up;
use crate::args::{Flags, When};
use crate::cmd::exec::{Job, carry_out};
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Whether this process was started to be one.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == SUPERVISE)
}

/// Leaves a process behind that runs the session, and ends.
pub(crate) fn run(args: &[OsString], host: &Host, io: &mut Stdio<'_>) -> ExitCode {
    let id = args.get(2).map(|word| word.to_string_lossy()).unwrap_or_default();
    let begun = Place::of(host).and_then(|place| {
        let session = supervisor::recall(&place, &id)?;
        Ok((place, session))
    });
    let (place, session) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            io.error(&error, error.hint());
            return ExitCode::from(125);
        }
    };
    match supervisor::detach(&place, &session, || i32::from(serve(&session, host))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            io.error(&error, None);
            ExitCode::from(125)
        }
    }
}

fn serve(session: &Session, host: &Host) -> u8 {
    let mut io = Stdio::real();
    io.colour(When::Never, host);
    perform(session, host, &mut io).unwrap_or_else(|failed| {
        io.error(failed.error.as_ref(), failed.hint);
        failed.code
    })
}

fn perform(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let started = sandbox_linux::clock::wall_exactly();
    let request = up::recorded(session)?;
    let (config, agent) = shape(config::load(host, &request)?).map_err(up::refused)?;
    // What is carried out is what was decided about.
    if policy(&config) != session.policy {
        let why = std::io::Error::other("the configuration has changed since it was looked at");
        return Err(Failed::new(why, Some("type the command again".into())));
    }
    let flags = Flags {
        session: session.cow.then(|| session.name.as_str().to_owned()),
        ..Flags::default()
    };
    let command = server::command(&agent);
    let agent = &agent.argv;
    carry_out(Job { flags: &flags, config, command, agent, started }, host, io)
}
