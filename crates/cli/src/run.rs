//! From words to an exit code. The one place where errors are printed.

use std::ffi::OsString;

use sandbox_core::plan::PlanError;
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

#[cfg(feature = "layers")]
use crate::args::changes::Command as Changes;
#[cfg(feature = "docker")]
use crate::args::image::Image;
#[cfg(feature = "proxy")]
use crate::args::proxy::Command as Proxied;
#[cfg(feature = "sessions")]
use crate::args::sessions::Command as Session;
use crate::args::{Command, Config, Flags, Typed, parse};
use crate::cmd;
#[cfg(feature = "sessions")]
use crate::cmd::sessions::exec::Form;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// Runs the program.
pub(crate) fn run(args: Vec<OsString>, host: &Host, io: &mut Stdio<'_>) -> std::process::ExitCode {
    let program = meant_for_a_program(&args);
    let code = match parse(args) {
        Typed::Understood(cli) => {
            io.colour(cli.flags.color, host);
            dispatch(*cli, host, io).unwrap_or_else(|failed| {
                io.error(failed.error.as_ref(), failed.hint);
                if failed.code == ExitCode::Usage.code() {
                    hint_at_program(program, io);
                }
                failed.code
            })
        }
        Typed::Answer(answer) => {
            let text = answer.render().to_string();
            if answer.use_stderr() {
                refuse(&answer, &text, program, io);
            } else {
                io.data(&text);
            }
            u8::try_from(answer.exit_code()).unwrap_or(ExitCode::Usage.code())
        }
    };
    code.into()
}

/// Prints an error about the command line.
fn refuse(answer: &clap::Error, text: &str, program: Option<&str>, io: &mut Stdio<'_>) {
    #[cfg(feature = "proxy")]
    if may_hold_secret(answer, text) {
        // clap repeats the word that it does not take.
        let error = std::io::Error::other("`secret` does not take these arguments");
        return io.error(&error, Some(cmd::secret::NOT_AN_ARGUMENT.into()));
    }
    #[cfg(not(feature = "proxy"))]
    let _ = answer;
    io.say(text.trim_end());
    hint_at_program(program, io);
}

/// Returns true when an error about the arguments of `secret` repeats one of them.
#[cfg(feature = "proxy")]
fn may_hold_secret(error: &clap::Error, text: &str) -> bool {
    use clap::error::ErrorKind::{MissingRequiredArgument, MissingSubcommand};
    let harmless = matches!(error.kind(), MissingRequiredArgument | MissingSubcommand);
    text.contains("Usage: agent-sandbox secret") && !harmless
}

/// Subcommands that programs are called by, too: what they do not take may have been meant for
/// the program.
const ALSO_PROGRAMS: [&str; 4] = ["ps", "rm", "diff", "history"];

fn meant_for_a_program(args: &[OsString]) -> Option<&'static str> {
    let word = args.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    ALSO_PROGRAMS.into_iter().find(|name| word == name)
}

fn hint_at_program(word: Option<&str>, io: &mut Stdio<'_>) {
    if let Some(word) = word {
        let text = format!("to run the program: agent-sandbox exec {word} …");
        io.labelled(Tone::Good, "hint", &text);
    }
}

fn dispatch(cli: crate::args::Cli, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let flags = &cli.flags;
    if cli.version {
        io.data(&format!("agent-sandbox {}\n", env!("CARGO_PKG_VERSION")));
        return Ok(0);
    }
    if cli.check {
        return Ok(cmd::check::run(flags, host, io));
    }
    check_home(cli.command.as_ref(), host)?;
    let Some(command) = cli.command else { return Ok(cmd::help(io)) };
    dispatch_command(command, flags, host, io)
}

fn dispatch_command(command: Command, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    match command {
        #[cfg(feature = "sessions")]
        Command::Exec { interactive, tty, command } => {
            cmd::sessions::exec::run(flags, Form::Exec { interactive, tty }, command, host, io)
        }
        #[cfg(not(feature = "sessions"))]
        Command::Exec { command } => cmd::exec::run(flags, command, host, io),
        #[cfg(feature = "sessions")]
        Command::Run(command) if flags.session.is_some() => {
            cmd::sessions::exec::run(flags, Form::Short, command, host, io)
        }
        Command::Run(command) => cmd::exec::run(flags, command, host, io),
        #[cfg(feature = "sessions")]
        Command::Session(command) => sessions(&command, flags, host, io),
        Command::Check => Ok(cmd::check::run(flags, host, io)),
        Command::Why(why) => cmd::why::run(flags, &why, host, io),
        Command::Doctor => Ok(cmd::doctor::run(flags, host, io)),
        Command::Init => cmd::init::run(flags, host, io),
        Command::Trust(trust) => cmd::trust::run(flags, &trust, host, io),
        Command::Config(Config::Show) => cmd::config::show(flags, host, io),
        Command::Config(Config::Path) => cmd::config::path(flags, host, io),
        Command::Config(Config::Schema) => Ok(cmd::config::schema(io)),
        #[cfg(feature = "layers")]
        Command::Fs { command: None } => Ok(cmd::help_of("fs", io)),
        #[cfg(feature = "layers")]
        Command::Fs { command: Some(command) } => cmd::fs::run(flags, command, host, io),
        #[cfg(feature = "docker")]
        Command::Image { command: None } => Ok(cmd::help_of("image", io)),
        #[cfg(feature = "docker")]
        Command::Image { command: Some(Image::Build(build)) } => {
            cmd::image::build(flags, build, host, io)
        }
        #[cfg(feature = "layers")]
        Command::Changes(command) => no_sandbox(changes(&command, flags, host, io)),
        #[cfg(feature = "proxy")]
        Command::Proxied(command) => proxied(&command, flags, host, io),
        #[cfg(feature = "docker")]
        Command::Bridge { command } => cmd::host_command::run(flags, command, host, io),
        Command::Blocked => no_sandbox(cmd::blocked::run(flags, host, io)),
        Command::Completions { shell } => Ok(cmd::manual::completions(shell, io)),
        Command::Man { dir } => cmd::manual::man(dir.as_deref(), io),
    }
}

/// Returns the exit code of a command that needs the home directory, where that does not exist.
fn without_home(command: Option<&Command>) -> Option<ExitCode> {
    match command {
        None
        | Some(
            Command::Check
            | Command::Why(_)
            | Command::Doctor
            | Command::Init
            | Command::Config(_)
            | Command::Completions { .. }
            | Command::Man { .. },
        ) => None,
        #[cfg(feature = "layers")]
        Some(Command::Fs { command: None }) => None,
        #[cfg(feature = "docker")]
        Some(Command::Image { .. } | Command::Bridge { .. }) => None,
        Some(Command::Exec { .. } | Command::Run(_)) => Some(ExitCode::Setup),
        #[cfg(feature = "sessions")]
        Some(Command::Session(Session::Up(_) | Session::Restart(_) | Session::Attach(_))) => {
            Some(ExitCode::Setup)
        }
        Some(_) => Some(ExitCode::Failure),
    }
}

#[cfg(feature = "layers")]
fn changes(command: &Changes, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    match command {
        Changes::Snapshot { name } => {
            cmd::sessions::snapshot::take(name.as_deref(), flags, host, io)
        }
        Changes::Restore { name } => cmd::sessions::snapshot::restore(name, flags, host, io),
        Changes::Fork { new } => cmd::sessions::snapshot::fork(new, flags, host, io),
        Changes::History { name } => cmd::sessions::history::run(name.as_ref(), flags, host, io),
        Changes::Diff(diff) => cmd::changes::diff::run(flags, diff, host, io),
        Changes::Apply(apply) => cmd::changes::apply::run(flags, apply, host, io),
        Changes::Discard(discard) => cmd::changes::discard::run(flags, discard, host, io),
        Changes::Undo(undo) => cmd::changes::undo::run(flags, undo, host, io),
    }
}

#[cfg(feature = "proxy")]
fn proxied(command: &Proxied, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    match command {
        Proxied::Secret { command } => cmd::secret::run(flags, command.as_ref(), host, io),
        Proxied::Proxy(proxy) => no_sandbox(cmd::proxy::run(proxy, host, io)),
        Proxied::Usage(usage) => no_sandbox(cmd::usage::run(flags, usage, host, io)),
    }
}

/// Refuses a home directory that does not exist, before a command makes it by putting something into it: a wrong `HOME`
/// would bring a second set of sessions, secrets and trust records. Commands that keep nothing there, and explain what is
/// wrong, work without.
fn check_home(command: Option<&Command>, host: &Host) -> Result<(), Failed> {
    let Some(code) = without_home(command) else { return Ok(()) };
    let Some(home) = host.home.as_deref().filter(|home| !home.is_dir()) else { return Ok(()) };
    let made = [host.state_dir(), host.data_dir(), host.config_dir()];
    if !made.iter().flatten().any(|dir| dir.starts_with(home)) {
        return Ok(());
    }
    Err(Failed { code: code.code(), ..PlanError::Home(home.to_owned()).into() })
}

#[cfg(feature = "sessions")]
fn sessions(command: &Session, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    match command {
        Session::Up(up) => cmd::sessions::up::run(up, flags, host, io),
        Session::Restart(one) => cmd::sessions::up::restart(one, flags, host, io),
        Session::Down(down) => no_sandbox(cmd::sessions::down::run(down, flags, host, io)),
        Session::Attach(one) => cmd::sessions::exec::attach(one, flags, host, io),
        Session::Logs(logs) => no_sandbox(cmd::sessions::logs::run(logs, flags, host, io)),
        Session::Inspect(one) => no_sandbox(cmd::sessions::inspect::run(one, flags, host, io)),
        Session::Serve(serve) => no_sandbox(cmd::sessions::serve::run(serve, host, io)),
        Session::Ps => no_sandbox(cmd::sessions::ps::run(flags, host, io)),
        Session::Rm(rm) => no_sandbox(cmd::sessions::rm::run(rm, flags, host, io)),
        Session::Prune(prune) => no_sandbox(cmd::sessions::prune::run(prune, flags, host, io)),
    }
}

/// A command that starts no sandbox never fails to set one up: it ends with 1.
fn no_sandbox(outcome: Outcome) -> Outcome {
    const SETUP: u8 = ExitCode::Setup.code();
    outcome.map_err(|failed| match failed.code {
        SETUP => Failed { code: ExitCode::Failure.code(), ..failed },
        _ => failed,
    })
}
