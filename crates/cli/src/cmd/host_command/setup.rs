//! `host-command setup`: shows the steps that prepare a host, and runs them with `--yes`.

use sandbox_bridge::setup::{Direction, Options, Setup as Steps};
use sandbox_policy::Host;

use crate::args::Flags;
use crate::args::host_command::Setup;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Shows the steps. With `--yes` runs them, or reverts them.
pub(super) fn run(flags: &Flags, setup: Setup, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (direction, verb) =
        if setup.undo { (Direction::Undo, "reverted") } else { (Direction::Take, "changed") };
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
    if flags.json {
        let texts: Vec<String> = steps.texts().map(|text| text.trim_end().to_owned()).collect();
        crate::cmd::json(&serde_json::json!({ "steps": texts, "run": setup.yes }), io);
    } else {
        steps.texts().for_each(|text| io.data(&text));
    }
    if !setup.yes {
        io.say(&format!("nothing was {verb}; pass `--yes` to run the steps"));
        return Ok(0);
    }
    steps.carry_out(host)?;
    io.say(if setup.undo { "Reverted all steps" } else { "Ran all steps" });
    if !options.reload_sshd {
        io.say("sshd still uses its old configuration; to reload it: systemctl reload ssh");
    }
    Ok(0)
}
