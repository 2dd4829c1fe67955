//! Dispatch: from arguments to an exit code. Errors that end the program are printed here.

use std::ffi::OsString;

use clap::error::ErrorKind;
use sandbox_core::plan::PlanError;
use sandbox_policy::Host;
use sandbox_policy::text::wrapped;
use sandbox_protocol::ExitCode;

#[cfg(feature = "layers")]
use crate::args::changes::Command as Changes;
use crate::args::help::{self, subcommands, width};
#[cfg(feature = "docker")]
use crate::args::image::Image;
#[cfg(feature = "proxy")]
use crate::args::proxy::Command as Proxied;
#[cfg(feature = "sessions")]
use crate::args::sessions::Command as Session;
use crate::args::{Command, Config, Flags, Typed, parse, wants_json};
use crate::cmd;
#[cfg(feature = "sessions")]
use crate::cmd::sessions::exec::Form;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

const MISSING_SUBCOMMAND: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// Runs the program.
pub(crate) fn run(args: Vec<OsString>, host: &Host, io: &mut Stdio<'_>) -> std::process::ExitCode {
    let program = meant_for_a_program(&args);
    let (json, secret) = (wants_json(&args), names_secret(&args));
    let failed = match parse(args) {
        Typed::Understood(cli) => {
            io.colour(cli.flags.color, host);
            match dispatch(*cli, host, io) {
                Ok(code) => return code.into(),
                Err(failed) => failed,
            }
        }
        Typed::Refused(failed) => failed,
        Typed::Answer(answer) => match answered(&answer, json, secret, program, io) {
            Ok(code) => return code.into(),
            Err(failed) => failed,
        },
    };
    report(&failed, json, program, io);
    failed.code.into()
}

/// Prints a help page, or an error for which clap says more than we do. Returns the exit code.
fn answered(
    answer: &clap::Error,
    json: bool,
    secret: bool,
    program: Option<&str>,
    io: &mut Stdio<'_>,
) -> Outcome {
    // clap answers only this command with its help. The others print theirs and succeed.
    if answer.kind() == MISSING_SUBCOMMAND {
        if json {
            return Err(Failed::no_subcommand("config"));
        }
        io.say(help::of(&["config"])?.trim_end());
        return Ok(ExitCode::Usage.code());
    }
    let text = wrapped(&answer.render().to_string(), width());
    if !answer.use_stderr() {
        io.data(&text);
        return Ok(ExitCode::Success.code());
    }
    let failed = refused(answer, &text, secret);
    if json || failed.hint.is_some() {
        return Err(failed);
    }
    io.say(text.trim_end());
    hint_at_program(program, io);
    Ok(failed.code)
}

/// Prints the error that ends the program: on stderr, under `--json` on stdout.
fn report(failed: &Failed, json: bool, program: Option<&str>, io: &mut Stdio<'_>) {
    if json {
        return cmd::json(&failed.json(), io);
    }
    io.error(failed.error.as_ref(), failed.hint.clone());
    if failed.code == ExitCode::Usage.code() {
        hint_at_program(program, io);
    }
}

/// Turns an error of clap into ours. Without a hint, the text of clap says more.
fn refused(answer: &clap::Error, text: &str, secret: bool) -> Failed {
    #[cfg(feature = "proxy")]
    if (secret || text.contains("Usage: agent-sandbox secret")) && repeats_a_word(answer) {
        // clap repeats the word that it refuses.
        let failed = Failed::usage("`secret` does not take these arguments");
        return Failed { hint: Some(cmd::secret::NOT_AN_ARGUMENT.into()), ..failed };
    }
    #[cfg(not(feature = "proxy"))]
    let _ = (answer, secret);
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    Failed { hint: None, ..Failed::usage(message.split_whitespace().collect::<Vec<_>>().join(" ")) }
}

/// Returns true if an error can repeat one of the arguments.
#[cfg(feature = "proxy")]
fn repeats_a_word(error: &clap::Error) -> bool {
    use ErrorKind::{MissingRequiredArgument, MissingSubcommand};
    !matches!(error.kind(), MissingRequiredArgument | MissingSubcommand)
}

/// Returns true if the first word that is a subcommand's name is `secret`.
fn names_secret(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1).filter_map(|word| word.to_str());
    words.find(|word| subcommands().any(|name| name == *word)) == Some("secret")
}

/// Subcommands that share their name with a program. Arguments that they refuse may have been meant for the program.
const ALSO_PROGRAMS: [&str; 4] = ["ps", "rm", "diff", "history"];

fn meant_for_a_program(args: &[OsString]) -> Option<&'static str> {
    let word = args.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    ALSO_PROGRAMS.into_iter().find(|name| word == name)
}

fn hint_at_program(word: Option<&str>, io: &mut Stdio<'_>) {
    if let Some(word) = word {
        io.hint(&format!("to run the program: agent-sandbox exec {word} …"));
    }
}

fn dispatch(cli: crate::args::Cli, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let flags = &cli.flags;
    if cli.version {
        return Ok(cmd::version(flags, io));
    }
    if cli.check {
        return Ok(cmd::check::run(flags, host, io));
    }
    check_home(cli.command.as_ref(), host)?;
    let Some(command) = cli.command else {
        return if flags.json {
            Err(Failed::usage("no command to run"))
        } else {
            cmd::help::<&str>(&[], flags, io)
        };
    };
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
        Command::Fs { command: None } => cmd::overview("fs", flags, io),
        #[cfg(feature = "layers")]
        Command::Fs { command: Some(command) } => cmd::fs::run(flags, command, host, io),
        #[cfg(feature = "docker")]
        Command::Image { command: None } => cmd::overview("image", flags, io),
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
        Command::Help { words } => cmd::help(&words, flags, io),
        Command::Version => Ok(cmd::version(flags, io)),
    }
}

/// Returns the exit code of a command that needs the home directory, if that does not exist.
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
            | Command::Man { .. }
            | Command::Help { .. }
            | Command::Version,
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

/// Refuses a home directory that does not exist, before a command creates it. A wrong `HOME` would start a second set
/// of sessions, secrets and trust records. Commands that store nothing there work without it.
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

/// Turns the exit code of a failed set-up into 1, for commands that start no sandbox.
fn no_sandbox(outcome: Outcome) -> Outcome {
    const SETUP: u8 = ExitCode::Setup.code();
    outcome.map_err(|failed| match failed.code {
        SETUP => Failed { code: ExitCode::Failure.code(), ..failed },
        _ => failed,
    })
}
