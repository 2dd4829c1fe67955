//! Command line of the tool `agentfs`, when this binary is called by that name.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Parser;
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use crate::args::agentfs::{AgentFs, Backend, Command, Inside};
use crate::args::fs::{Cat, Diff, Engine, Fs, History, Init, Ls, Mount};
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Returns true when this process was called as `agentfs`.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    args.first().and_then(|name| Path::new(name).file_name()) == Some(OsStr::new("agentfs"))
}

/// Runs a command line of `agentfs`. Every failure exits with 1, as in that tool.
pub(crate) fn run(args: Vec<OsString>, host: &Host, io: &mut Stdio<'_>) -> std::process::ExitCode {
    let flags = Flags::default();
    io.colour(flags.color, host);
    let asked = match AgentFs::try_parse_from(args) {
        Ok(asked) => asked,
        Err(answer) => {
            let text = answer.render().to_string();
            if answer.use_stderr() {
                io.say(text.trim_end());
            } else {
                io.data(&text);
            }
            return u8::try_from(answer.exit_code()).unwrap_or(ExitCode::Usage.code()).into();
        }
    };
    let code = carry_out(asked.command, flags, host, io).unwrap_or_else(|failed| {
        io.error(failed.error.as_ref(), failed.hint);
        failed.code.min(ExitCode::Failure.code())
    });
    code.into()
}

fn carry_out(command: Command, mut flags: Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let command = match command {
        Command::Init { id, force, base } => {
            Fs::Init(Init { id, base, force, engine: Engine::Agentfs })
        }
        Command::Mount { options, backend: Backend::Fuse } => {
            Fs::Mount(Mount { options, engine: None })
        }
        Command::Fs { target, command: Inside::Ls { path } } => {
            Fs::Ls(Ls { target, path, recursive: true })
        }
        Command::Fs { target, command: Inside::Cat { path } } => Fs::Cat(Cat { target, path }),
        Command::Diff { target } => Fs::Diff(Diff { target, patch: false }),
        Command::Timeline { target, limit, format } => {
            flags.json = format == "json";
            Fs::History(History { target, limit })
        }
        Command::Ps => Fs::Ps,
        Command::Other(words) => return Err(unknown(&words)),
    };
    super::run(&flags, command, host, io)
}

fn unknown(words: &[OsString]) -> Failed {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let hint = "`agentfs --help` lists the supported commands; to run a program on a copy: agent-sandbox --cow COMMAND";
    let error = format!("agent-sandbox does not support `agentfs {word}`");
    let code = ExitCode::Failure.code();
    Failed { error: error.into(), hint: Some(hint.into()), word: "unsupported", code }
}
