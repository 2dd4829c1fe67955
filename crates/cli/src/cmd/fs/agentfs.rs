//! The personality `agentfs`: a link of that name to this binary takes that tool's command lines.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Parser;
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use crate::args::agentfs::{AgentFs, Command, Inside};
use crate::args::fs::{Cat, Diff, Engine, Fs, History, Init, Ls, Mount, Target};
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Whether this process was called by that name.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    args.first().and_then(|name| Path::new(name).file_name()) == Some(OsStr::new("agentfs"))
}

/// Does what was asked. Everything that fails ends with 1, as that tool does.
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
    let target = |target| Target { target };
    let command = match command {
        Command::Init { id, force, base } => {
            Fs::Init(Init { id, base, force, engine: Engine::Agentfs })
        }
        Command::Mount {
            id_or_path,
            mountpoint,
            auto_unmount,
            allow_root,
            system,
            foreground,
            uid,
            gid,
            backend: _,
        } => {
            // That tool takes both, and the wider one holds.
            let allow_root = allow_root && !system;
            Fs::Mount(Mount {
                target: id_or_path,
                mountpoint,
                auto_unmount,
                allow_root,
                system,
                foreground,
                uid,
                gid,
                engine: None,
            })
        }
        Command::Fs { id_or_path, command: Inside::Ls { path } } => {
            Fs::Ls(Ls { target: target(id_or_path), path, recursive: true })
        }
        Command::Fs { id_or_path, command: Inside::Cat { path } } => {
            Fs::Cat(Cat { target: target(id_or_path), path })
        }
        Command::Diff { id_or_path } => Fs::Diff(Diff { target: target(id_or_path), patch: false }),
        Command::Timeline { id_or_path, limit, format } => {
            flags.json = format == "json";
            Fs::History(History { target: target(id_or_path), limit })
        }
        Command::Ps => Fs::Ps,
        Command::Other(words) => return Err(unknown(&words)),
    };
    super::run(&flags, command, host, io)
}

fn unknown(words: &[OsString]) -> Failed {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let hint = "`agentfs --help` lists what it does; to run a command on a copy: agent-sandbox --cow COMMAND";
    let error = format!("agent-sandbox does not do `{word}` in the place of agentfs");
    let code = ExitCode::Failure.code();
    Failed { error: error.into(), hint: Some(hint.into()), word: "unsupported", code }
}
