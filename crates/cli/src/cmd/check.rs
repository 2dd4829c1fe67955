//! `check`: inside or outside.

use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use crate::ui::Stdio;

/// Prints where this runs. The answer is a mount that nobody inside can make or remove.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> u8 {
    let place = if host.inside { "inside sandbox" } else { "outside sandbox" };
    if flags.json {
        io.data(&format!("{}\n", serde_json::json!({ "inside": host.inside })));
    } else {
        io.data(&format!("{place}\n"));
    }
    ExitCode::failed_if(!host.inside).code()
}
