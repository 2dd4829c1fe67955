//! The process of a session outside, which this binary becomes when it is called by its multicall word.

use std::ffi::OsString;

use sandbox_core::Host;
use sandbox_protocol::multicall::SUPERVISE;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_sessions::Place;
use sandbox_sessions::backend::bwrap::supervisor;
use sandbox_sessions::session::Session;

use crate::args::When;
use crate::events::Printer;
use crate::ui::Stdio;

/// Returns true when this process was started to be one.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == SUPERVISE)
}

/// Leaves a process behind that runs the session, and ends.
pub(crate) fn run(args: &[OsString], host: &Host, io: &mut Stdio<'_>) -> std::process::ExitCode {
    let id = args.get(2).map(|word| word.to_string_lossy()).unwrap_or_default();
    let begun = Place::of(host).and_then(|place| {
        let session = supervisor::recall(&place, &id)?;
        Ok((place, session))
    });
    let (place, session) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            io.error(&error, error.hint());
            return ExitCode::Setup.into();
        }
    };
    match supervisor::detach(&place, &session, || i32::from(serve(&session, host))) {
        Ok(()) => ExitCode::Success.into(),
        Err(error) => {
            io.error(&error, None);
            ExitCode::Setup.into()
        }
    }
}

fn serve(session: &Session, host: &Host) -> u8 {
    let mut io = Stdio::real();
    io.colour(When::Never, host);
    let ended = supervisor::run(host, session, &mut Printer { io: &mut io, debug: false });
    ended.unwrap_or_else(|error| {
        io.error(&error, error.hint());
        error.exit_code().code()
    })
}
