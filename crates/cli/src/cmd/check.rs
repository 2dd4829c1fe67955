//! `check`: reports if this process runs in a sandbox.

use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use crate::ui::Stdio;

/// Prints `inside sandbox` or `outside sandbox`. A mount shows it that no process inside can create or remove.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> u8 {
    let place = if host.inside { "inside sandbox" } else { "outside sandbox" };
    if flags.json {
        io.data(&format!("{}\n", serde_json::json!({ "inside": host.inside })));
    } else {
        io.data(&format!("{place}\n"));
    }
    ExitCode::failed_if(!host.inside).code()
}
