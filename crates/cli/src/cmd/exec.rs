//! `exec`, and the short form: run one command in the sandbox.

use std::ffi::OsString;

use sandbox_core::plan::plan_config;
use sandbox_core::render::shell;
use sandbox_launch::{Job, OnRefusal, launch};
use sandbox_policy::Host;

use crate::args::Flags;
use crate::events::Printer;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Reads the configuration, and runs.
pub(crate) fn run(
    flags: &Flags,
    command: Vec<OsString>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let started = sandbox_linux::clock::wall_exactly();
    let request = super::request(flags, command, host)?;
    let config = super::load(host, &request, io)?;
    let command = request.command;
    if flags.dry_run {
        let plan = plan_config(host, config, command)?;
        if flags.json {
            super::json(&plan, io);
        } else {
            io.data(&shell::line(&plan, host));
        }
        return Ok(0);
    }
    let session = flags.session.clone();
    let on_refusal = if flags.fail_on_blocked { OnRefusal::Fail } else { OnRefusal::Report };
    let job = Job { session, on_refusal, started, ..Job::new(config, command) };
    Ok(launch(host, job, &mut Printer { io, debug: flags.debug })?.code)
}
