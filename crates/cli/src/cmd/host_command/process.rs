//! Background processes of the bridge: this binary, when it is called by their multicall words.

use std::process::ExitCode;

use sandbox_bridge::process::Process;
use sandbox_policy::Host;
use sandbox_protocol::Hint;

use super::say_listening;
use crate::ui::Stdio;

/// Serves until a signal.
pub(crate) fn run(process: &Process, host: &Host, io: &mut Stdio<'_>) -> ExitCode {
    let served = process.run(host, &mut |socket| say_listening(socket, io));
    ExitCode::from(served.unwrap_or_else(|error| {
        let hint = error.hint();
        io.error(&error, hint);
        1
    }))
}
