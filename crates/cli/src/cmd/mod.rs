//! One file per command. Each takes what was typed and the host, and returns an exit code.

pub(crate) mod multicall;
pub(crate) mod exec;
pub(crate) mod report;
pub(crate) mod dry_run;
pub(crate) mod debug;
pub(crate) mod check;
pub(crate) mod why;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod trust;
pub(crate) mod config;
pub(crate) mod manual;

use std::ffi::OsString;

use clap::CommandFactory;
use sandbox_core::Host;
use sandbox_core::config::{self as core_config, ConfigError, Request};

use crate::args::{Cli, Flags};
use crate::run::Failed;
use crate::ui::Stdio;

/// The usage, when nothing was asked for.
pub(crate) fn help(io: &mut Stdio<'_>) -> u8 {
    io.data(&Cli::command().render_help().to_string());
    0
}

/// The request that the flags make.
pub(crate) fn request(
    flags: &Flags,
    command: Vec<OsString>,
    host: &Host,
) -> Result<Request, Failed> {
    let trusted =
        host.var("AGENT_SANDBOX_TRUST").is_some_and(|value| value == "1" || value == "true");
    flags.request(command, trusted).map_err(Failed::usage)
}

/// Loads the configuration; a project file that opens something is asked about once, on a terminal.
pub(crate) fn load(
    host: &Host,
    request: &Request,
    io: &mut Stdio<'_>,
) -> Result<core_config::Config, Failed> {
    match core_config::load(host, request) {
        Err(ConfigError::Untrusted { file, digest, widenings })
            if io.interactive && !host.inside =>
        {
            if !trust::ask(&file, &widenings, io) {
                return Err(ConfigError::Untrusted { file, digest, widenings }.into());
            }
            core_config::trust::record_digest(host, &file, &digest).map_err(|error| {
                let hint = error.hint();
                Failed::new(error, hint)
            })?;
            // Read again: what is obeyed is what was recorded, or it is asked about again.
            Ok(core_config::load(host, request)?)
        }
        other => Ok(other?),
    }
}
