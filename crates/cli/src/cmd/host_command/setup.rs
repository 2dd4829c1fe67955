//! `host-command setup`: shows the steps that prepare a host, and carries them out with `--yes`.

use sandbox_bridge::setup::{Direction, Options, Setup as Steps};
use sandbox_policy::Host;

use crate::args::host_command::Setup;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Shows the steps; takes them, or takes them back, with `--yes`.
pub(super) fn run(setup: Setup, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (direction, verb) =
        if setup.undo { (Direction::Undo, "taken back") } else { (Direction::Take, "done") };
    let options = Options {
        user: setup.user,
        allow: setup.allow,
        key: setup.key,
        from: setup.from,
        expires: setup.expires,
        sudo: setup.sudo,
        reload_sshd: setup.reload_sshd,
    };
    let steps = Steps::plan(&options, direction, host)?;
    for text in steps.texts() {
        io.data(&text);
    }
    if !setup.yes {
        io.say(&format!("nothing was {verb}; `--yes` does it"));
        return Ok(0);
    }
    steps.carry_out(host)?;
    io.say(&format!("everything was {verb}"));
    if !options.reload_sshd {
        io.say("sshd has not been told: `systemctl reload ssh`, or `--reload-sshd` next time");
    }
    Ok(0)
}
