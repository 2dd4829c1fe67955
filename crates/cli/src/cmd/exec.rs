//! `exec` and its short form: runs one command in the sandbox.

use std::ffi::OsString;

use sandbox_core::plan::plan_config;
use sandbox_core::render::shell;
use sandbox_launch::{Job, OnRefusal, launch};
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::{Flags, help};
use crate::events::Printer;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Loads the configuration, and runs the command. A mistyped subcommand gets a suggestion.
pub(crate) fn run(
    flags: &Flags,
    command: Vec<OsString>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let started = sandbox_linux::clock::wall_exactly();
    let request = super::request(flags, command, host)?;
    let config = super::load(host, &request, io)?;
    let command = request.command.clone();
    if flags.dry_run {
        let plan = plan_config(host, config, command)?;
        if flags.json {
            super::json(&plan, io);
        } else {
            io.data(&shell::line(&plan, host));
        }
        return Ok(0);
    }
    super::name_policies(&config, &request, flags, io);
    let session = flags.session.clone();
    let on_refusal = if flags.fail_on_blocked { OnRefusal::Fail } else { OnRefusal::Report };
    let program = command.first().map(|word| word.to_string_lossy().into_owned());
    let job = Job { session, on_refusal, started, ..Job::new(config, command) };
    let code = launch(host, job, &mut Printer { io, debug: flags.debug })?.code;
    let meant = program.filter(|_| code == ExitCode::NotFound.code());
    if let Some(subcommand) = meant.as_deref().and_then(help::meant) {
        io.hint(&format!("did you mean `agent-sandbox {subcommand}`?"));
    }
    Ok(code)
}
