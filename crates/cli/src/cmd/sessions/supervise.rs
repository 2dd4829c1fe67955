//! Supervisor of a local session: this binary, when it is called by its multicall word.

use std::ffi::OsString;

use sandbox_policy::Host;
use sandbox_protocol::multicall::SUPERVISE;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_sessions::DataDir;
use sandbox_sessions::backend::local::supervisor;
use sandbox_sessions::session::Session;

use crate::args::When;
use crate::events::Printer;
use crate::ui::Stdio;

/// Returns true when this process was started as a supervisor.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == SUPERVISE)
}

/// Starts a background process that runs the session, and exits.
pub(crate) fn run(args: &[OsString], host: &Host, io: &mut Stdio<'_>) -> std::process::ExitCode {
    let id = args.get(2).map(|word| word.to_string_lossy()).unwrap_or_default();
    let begun = DataDir::of(host).and_then(|data_dir| {
        let session = supervisor::recall(&data_dir, &id)?;
        Ok((data_dir, session))
    });
    let (data_dir, session) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            io.error(&error, error.hint());
            return ExitCode::Setup.into();
        }
    };
    match supervisor::detach(&data_dir, &session, || i32::from(serve(&session, host))) {
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
