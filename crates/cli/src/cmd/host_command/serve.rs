//! `host-command serve`: runs the commands that containers request.

use sandbox_bridge::serve::{self, Options};
use sandbox_policy::Host;

use super::say_listening;
use crate::args::host_command::Serve;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Serves until a signal, or runs the one request from sshd.
pub(super) fn run(serve: Serve, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let Serve { list, listen, session_list, state, audit } = serve;
    let options = Options { list, listen, session_list, state, audit, locked: false };
    Ok(serve::serve(&options, host, &mut |socket| say_listening(socket, io))?)
}
