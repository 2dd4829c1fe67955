//! From words to an exit code. The one place where errors are printed.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use sandbox_core::Host;

use crate::args::image::Image;
use crate::args::sessions::Command as Session;
use crate::args::{Command, Config, Flags, Typed, parse};
use crate::cmd;
use crate::ui::{Stdio, Tone};

/// What a command ends with when it cannot do its work.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: Box<dyn Error>,
    pub hint: Option<String>,
    pub code: u8,
}

impl Failed {
    /// A failure with exit code 125: the sandbox could not be set up.
    pub(crate) fn new(error: impl Error + 'static, hint: Option<String>) -> Self {
        Self { error: Box::new(error), hint, code: 125 }
    }

    /// Something was typed wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            error: message.into().into(),
            hint: Some("`agent-sandbox --help` lists the flags".into()),
            code: 2,
        }
    }
}

impl From<sandbox_core::plan::PlanError> for Failed {
    fn from(error: sandbox_core::plan::PlanError) -> Self {
        let (hint, code) = (error.hint(), error.exit_code());
        Self { error: Box::new(error), hint, code }
    }
}

impl From<sandbox_core::config::ConfigError> for Failed {
    fn from(error: sandbox_core::config::ConfigError) -> Self {
        sandbox_core::plan::PlanError::from(error).into()
    }
}

/// A command's exit code, or why it has none.
pub(crate) type Outcome = Result<u8, Failed>;

/// Runs the program.
pub(crate) fn run(args: Vec<OsString>, host: &Host, io: &mut Stdio<'_>) -> ExitCode {
    let program = meant_for_a_program(&args);
    let code = match parse(args) {
        Typed::Understood(cli) => {
            io.colour(cli.flags.color, host);
            dispatch(*cli, host, io).unwrap_or_else(|failed| {
                io.error(failed.error.as_ref(), failed.hint);
                if failed.code == 2 {
                    hint_at_program(program, io);
                }
                failed.code
            })
        }
        Typed::Answer(answer) => {
            let text = answer.render().to_string();
            if answer.use_stderr() {
                io.say(text.trim_end());
                hint_at_program(program, io);
            } else {
                io.data(&text);
            }
            u8::try_from(answer.exit_code()).unwrap_or(2)
        }
    };
    ExitCode::from(code)
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
    match cli.command {
        None => Ok(cmd::help(io)),
        Some(Command::Exec { interactive, tty, command }) => {
            cmd::sessions::exec::run(flags, [interactive, tty], command, host, io)
        }
        Some(Command::Run(command)) if flags.session.is_some() => {
            cmd::sessions::exec::run(flags, [false, false], command, host, io)
        }
        Some(Command::Run(command)) => cmd::exec::run(flags, command, host, io),
        Some(Command::Session(command)) => sessions(&command, flags, host, io),
        Some(Command::Check) => Ok(cmd::check::run(flags, host, io)),
        Some(Command::Why(why)) => cmd::why::run(flags, &why, host, io),
        Some(Command::Doctor) => Ok(cmd::doctor::run(flags, host, io)),
        Some(Command::Init) => cmd::init::run(flags, host, io),
        Some(Command::Trust(trust)) => cmd::trust::run(flags, &trust, host, io),
        Some(Command::Config(Config::Show)) => cmd::config::show(flags, host, io),
        Some(Command::Config(Config::Path)) => cmd::config::path(flags, host, io),
        Some(Command::Config(Config::Schema)) => Ok(cmd::config::schema(io)),
        Some(Command::Fs { command: None }) => Ok(cmd::help_of("fs", io)),
        Some(Command::Fs { command: Some(command) }) => cmd::fs::run(flags, command, host, io),
        Some(Command::Image { command: None }) => Ok(cmd::help_of("image", io)),
        Some(Command::Image { command: Some(Image::Build(build)) }) => {
            cmd::image::build(flags, &build, host, io)
        }
        Some(Command::Snapshot { name }) => {
            no_sandbox(cmd::sessions::snapshot::take(name.as_deref(), flags, host, io))
        }
        Some(Command::Restore { name }) => {
            no_sandbox(cmd::sessions::snapshot::restore(&name, flags, host, io))
        }
        Some(Command::Fork { new }) => {
            no_sandbox(cmd::sessions::snapshot::fork(&new, flags, host, io))
        }
        Some(Command::History { name }) => {
            no_sandbox(cmd::sessions::history::run(name.as_ref(), flags, host, io))
        }
        Some(Command::Diff(diff)) => no_sandbox(cmd::changes::diff::run(flags, &diff, host, io)),
        Some(Command::Apply(apply)) => {
            no_sandbox(cmd::changes::apply::run(flags, &apply, host, io))
        }
        Some(Command::Discard(discard)) => {
            no_sandbox(cmd::changes::discard::run(flags, &discard, host, io))
        }
        Some(Command::Undo(undo)) => no_sandbox(cmd::changes::undo::run(flags, &undo, host, io)),
        Some(Command::Secret { command }) => cmd::secret::run(flags, command.as_ref(), host, io),
        Some(Command::Proxy(proxy)) => no_sandbox(cmd::proxy::run(&proxy, host, io)),
        Some(Command::Usage(usage)) => no_sandbox(cmd::usage::run(flags, &usage, host, io)),
        Some(Command::Bridge { command }) => cmd::host_command::run(flags, command, host, io),
        Some(Command::Blocked) => no_sandbox(cmd::blocked::run(flags, host, io)),
        Some(Command::Completions { shell }) => Ok(cmd::manual::completions(shell, io)),
        Some(Command::Man { dir }) => cmd::manual::man(dir.as_deref(), io),
    }
}

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
        Session::Rm { names } => no_sandbox(cmd::sessions::rm::run(names, flags, host, io)),
        Session::Prune(prune) => no_sandbox(cmd::sessions::prune::run(prune, flags, host, io)),
    }
}

/// A command that starts no sandbox never fails to set one up: it ends with 1.
fn no_sandbox(outcome: Outcome) -> Outcome {
    outcome.map_err(|failed| Failed {
        code: if failed.code == 125 { 1 } else { failed.code },
        ..failed
    })
}
