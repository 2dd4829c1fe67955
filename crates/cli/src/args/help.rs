//! Help pages. The page of the program lists subcommands in groups. The page of a subcommand lists the flags that apply
//! to it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::fd::AsFd;

use clap::builder::Resettable;
use clap::{Command, CommandFactory};
use sandbox_linux::pty;
use sandbox_policy::text::{did_you_mean, nearest, shown, wrapped};

use super::{Cli, scope};
use crate::failed::Failed;

/// Subcommands, by heading.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["exec", "up", "down", "restart", "attach"]),
    ("Review", &["diff", "apply", "discard", "undo", "history", "snapshot", "restore", "fork"]),
    ("Sessions", &["ps", "inspect", "logs", "rm", "prune", "serve"]),
    ("Policy", &["why", "init", "trust", "config"]),
    ("Secrets and network", &["secret", "proxy", "usage", "blocked", "host-command"]),
    ("Filesystems and images", &["fs", "image"]),
    ("Setup", &["doctor", "check", "completions", "man", "help", "version"]),
];

/// Examples of command lines, with descriptions.
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("agent-sandbox claude", "run Claude Code in this directory"),
    ("agent-sandbox --network=false npm test", "run without the network"),
    ("agent-sandbox --ro src --exclude .env sh", "make src read-only, hide .env"),
    ("agent-sandbox why ~/.ssh", "explain what hides it"),
];

/// Greatest width of a line, and the default without a terminal and without `COLUMNS`.
const WIDTH: usize = 100;

/// Returns the names of all subcommands, also of those that this build leaves out.
pub(crate) fn subcommands() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Words of other tools for our subcommands.
const SYNONYMS: &[(&str, &str)] = &[
    ("run", "exec"),
    ("start", "up"),
    ("create", "up"),
    ("stop", "down"),
    ("list", "ps"),
    ("status", "ps"),
    ("remove", "rm"),
    ("delete", "rm"),
    ("revert", "undo"),
];

/// Returns the subcommand that a mistyped program name probably meant.
pub(crate) fn meant(program: &str) -> Option<&'static str> {
    let synonym = SYNONYMS.iter().find(|(word, _)| *word == program);
    synonym.map(|(_, subcommand)| *subcommand).or_else(|| nearest(program, subcommands()))
}

/// Returns the definition of the command line, in which each subcommand shows only the flags that apply to it.
pub(crate) fn definition() -> Command {
    let mut command = Cli::command();
    command.build();
    let subcommands: Vec<_> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in subcommands {
        command = command.mut_subcommand(&name, |sub| fitting(sub, &name));
    }
    command
}

fn fitting(command: Command, path: &str) -> Command {
    let below: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| {
        let id = arg.get_id().as_str();
        // `up` takes the flag only to point to `--name`.
        let hidden = (id, path) == ("session", "up")
            || arg.is_hide_set()
            || (arg.is_global_set() && !scope::applies(id, path));
        // A command without a policy has no sandbox, so the flags that remain are options like any other.
        let arg = match arg.get_help_heading() {
            Some("Sandbox") if !scope::applies("network", path) => {
                arg.help_heading(Resettable::Reset)
            }
            _ => arg,
        };
        match arg.get_id().as_str() {
            "session" if !scope::applies("cow", path) => arg.help("Use the session NAME"),
            "dry_run" if path == "exec" => {
                arg.help("Print the bubblewrap command line, and run nothing")
            }
            _ => arg,
        }
        .hide(hidden)
    });
    below.into_iter().fold(command, |command, name| {
        command.mut_subcommand(&name, |sub| fitting(sub, &format!("{path} {name}")))
    })
}

/// Returns the help that a command line asks for.
pub(super) fn page(args: &[OsString]) -> clap::Error {
    let command = definition();
    let overview = overview(&command);
    match command.override_help(overview).try_get_matches_from(args) {
        Err(answer) => answer,
        Ok(_) => Cli::command().error(clap::error::ErrorKind::DisplayHelp, ""),
    }
}

/// Returns the help of the subcommand with these words, or of the program.
pub(crate) fn of<S: AsRef<str>>(words: &[S]) -> Result<String, Failed> {
    let command = definition();
    let mut below = &command;
    for word in words.iter().map(AsRef::as_ref) {
        let Some(found) = below.find_subcommand(word) else {
            let hint = did_you_mean(word, below.get_subcommands().map(Command::get_name));
            let failed = Failed::usage(format!("unknown command {}", shown(word)));
            let hint = hint.unwrap_or_else(|| "`agent-sandbox help` lists the commands".into());
            return Err(Failed { hint: Some(hint), ..failed });
        };
        below = found;
    }
    let words = words.iter().map(AsRef::as_ref);
    let args: Vec<OsString> =
        ["agent-sandbox"].into_iter().chain(words).chain(["--help"]).map(Into::into).collect();
    Ok(wrapped(&page(&args).render().to_string(), width()))
}

/// Returns the help of the program.
fn overview(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        "{about}\n\nUsage: agent-sandbox [FLAGS] COMMAND [ARG]...\n       agent-sandbox [FLAGS] SUBCOMMAND [ARG]...\n\n"
    );
    for (heading, names) in GROUPS {
        let known: Vec<_> = names.iter().filter_map(|name| command.find_subcommand(name)).collect();
        if !known.is_empty() {
            let _ = writeln!(text, "{heading}:");
        }
        for sub in known {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<12}  {about}", sub.get_name());
        }
    }
    let (sandbox, other): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_id().as_str(), format!("--{}", arg.get_long()?))))
        .partition(|(id, _)| !scope::applies(id, "version"));
    for (heading, flags) in [("Sandbox flags", sandbox), ("Other flags", other)] {
        let flags: Vec<_> = flags.into_iter().map(|(_, flag)| flag).collect();
        let _ = writeln!(text, "\n{heading}: {}", flags.join(" "));
    }
    text + "\nIf the first argument is not a subcommand, it is run as a command, with everything after it as its arguments. \
            `agent-sandbox help exec` explains the sandbox flags, `agent-sandbox help COMMAND` a subcommand.\n"
}

/// Returns the width of the terminal, else of `COLUMNS`.
pub(crate) fn width() -> usize {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let terminal = [stdout.as_fd(), stderr.as_fd()].into_iter().find_map(|fd| pty::size(fd).ok());
    #[allow(clippy::disallowed_methods, reason = "clap reads it the same way")]
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = terminal.map(|size| usize::from(size.columns)).filter(|width| *width > 0);
    width.or_else(variable).unwrap_or(WIDTH).min(WIDTH)
}
