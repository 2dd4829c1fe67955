//! What was typed, as types.

#[cfg(feature = "layers")]
pub(crate) mod agentfs;
#[cfg(feature = "layers")]
pub(crate) mod fs;
#[cfg(feature = "docker")]
pub(crate) mod host_command;
#[cfg(feature = "docker")]
pub(crate) mod image;
#[cfg(feature = "layers")]
pub(crate) mod changes;
mod flags;
#[cfg(feature = "proxy")]
pub(crate) mod proxy;
#[cfg(feature = "proxy")]
pub(crate) mod secret;
#[cfg(feature = "sessions")]
pub(crate) mod sessions;
pub(crate) mod words;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use flags::{Flags, When};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "agent-sandbox",
    version,
    disable_version_flag = true,
    about = "Run any AI agent so that it can do its work and nothing else",
    after_help = after_help(),
    override_usage = "agent-sandbox [FLAGS] COMMAND [ARGS]...\n       agent-sandbox [FLAGS] SUBCOMMAND [ARGS]...",
    args_conflicts_with_subcommands = false,
    subcommand_help_heading = "Subcommands",
    disable_help_subcommand = true,
    allow_external_subcommands = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub flags: Flags,

    /// Print the version
    #[arg(short = 'v', long, short_alias = 'V', help_heading = "About")]
    pub version: bool,

    /// Say whether this runs inside a sandbox: exit code 0 inside, 1 outside
    #[arg(long, help_heading = "About")]
    pub check: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Command lines to start from, and what they do.
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("agent-sandbox claude", "run Claude Code in this directory"),
    ("agent-sandbox --network=false npm test", "without the network"),
    ("agent-sandbox --ro src --exclude .env sh", "src cannot be changed, .env looks empty"),
    ("agent-sandbox why ~/.ssh", "who hides it, and what would show it"),
    ("agent-sandbox --dry-run -- ls -la", "the bubblewrap command line, nothing is run"),
];

fn after_help() -> String {
    let mut text = String::from("Examples:\n");
    for (line, meaning) in EXAMPLES {
        let _ = writeln!(text, "  {line:<42} {meaning}");
    }
    text.push_str(
        "\nThe first word that is no flag is a subcommand if it is one, else the command to run.\n\
         What stands after the command belongs to the command.",
    );
    text
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command, even one that is called like a subcommand
    #[command(override_usage = "agent-sandbox exec [FLAGS] COMMAND [ARGS]...")]
    Exec {
        /// Pass standard input on to a session
        #[cfg(feature = "sessions")]
        #[arg(short, long)]
        interactive: bool,
        /// Give a command in a session a terminal of its own
        #[cfg(feature = "sessions")]
        #[arg(short, long)]
        tty: bool,
        /// The command and its arguments
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "COMMAND"
        )]
        command: Vec<OsString>,
    },
    /// Say whether this runs inside a sandbox: exit code 0 inside, 1 outside
    Check,
    /// Explain what decides about a path, a host, a command or a variable
    Why(Why),
    /// Look for what sandboxes need, and name the remedy for what is missing
    Doctor,
    /// Write a commented configuration from what is found in this project
    Init,
    /// Allow what this project's configuration opens
    Trust(Trust),
    /// Show the configuration
    #[command(subcommand)]
    Config(Config),
    #[cfg(feature = "layers")]
    /// Copy-on-write filesystems in a file: make, mount, read, check, move
    Fs {
        #[command(subcommand)]
        command: Option<fs::Fs>,
    },
    #[cfg(feature = "docker")]
    /// Images to run agents in
    Image {
        #[command(subcommand)]
        command: Option<image::Image>,
    },
    #[cfg(feature = "sessions")]
    #[command(flatten)]
    Session(sessions::Command),
    #[cfg(feature = "layers")]
    #[command(flatten)]
    Changes(changes::Command),
    #[cfg(feature = "proxy")]
    #[command(flatten)]
    Proxied(proxy::Command),
    #[cfg(feature = "docker")]
    /// Commands that an agent in a container may have run on the host
    #[command(name = "host-command")]
    Bridge {
        #[command(subcommand)]
        command: Option<host_command::HostCommand>,
    },
    /// List what the last run here was refused, by whom, and what would allow it
    Blocked,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them
    Man {
        /// Write one page for each subcommand into DIR
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// The command to run in the sandbox
    #[command(external_subcommand)]
    Run(Vec<OsString>),
}

/// Explain what decides about a path, a host, a command or a variable.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Why {
    /// A path, as the command would name it
    pub path: Option<PathBuf>,
    /// A host on the network
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// A command
    #[arg(long, value_name = "NAME")]
    pub command: Option<String>,
    /// A variable of the environment
    #[arg(long, value_name = "NAME")]
    pub variable: Option<String>,
}

/// Allow what this project's configuration opens.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The file; the project's own when left out
    pub file: Option<PathBuf>,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["file", "revoke"])]
    pub list: bool,
    /// Take the trust back
    #[arg(long)]
    pub revoke: bool,
}

/// Show the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// What holds here, and which line says so
    Show,
    /// Which files are read
    Path,
    /// The JSON Schema of configuration files
    Schema,
}

/// What the words meant.
#[derive(Debug)]
pub(crate) enum Typed {
    /// They make sense.
    Understood(Box<Cli>),
    /// They ask for help, or make no sense.
    Answer(clap::Error),
}

/// Reads the command line.
pub(crate) fn parse(args: Vec<OsString>) -> Typed {
    if let Some(cli) = without_flags(&args) {
        return Typed::Understood(Box::new(cli));
    }
    let (args, short) = name_the_command(args);
    Cli::try_parse_from(args).map_or_else(Typed::Answer, |mut cli| {
        if let Some(word) = cli.command.as_ref().and_then(Command::left_out) {
            return Typed::Answer(not_in_this_build(word));
        }
        cli.command = cli.command.map(|command| command.told_apart(short));
        Typed::Understood(Box::new(cli))
    })
}

/// Refuses a subcommand whose feature is left out. The program of that name would be another thing: `rm`.
fn not_in_this_build(word: &str) -> clap::Error {
    let text = format!(
        "this build has no `{word}`\n\nhint: to run the program: agent-sandbox exec {word} …\n"
    );
    Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, text)
}

/// The words that clap knows as subcommands.
const SUBCOMMANDS: &[&str] = &[
    "exec",
    "check",
    "why",
    "doctor",
    "init",
    "trust",
    "config",
    "fs",
    "image",
    "up",
    "down",
    "serve",
    "attach",
    "logs",
    "restart",
    "inspect",
    "ps",
    "rm",
    "prune",
    "snapshot",
    "restore",
    "fork",
    "history",
    "diff",
    "apply",
    "discard",
    "undo",
    "secret",
    "proxy",
    "usage",
    "host-command",
    "blocked",
    "completions",
    "man",
    "help",
];

/// `agent-sandbox COMMAND …` is what is typed most, and clap takes longer to get ready than the
/// whole plan may take. There is nothing to parse in it.
fn without_flags(args: &[OsString]) -> Option<Cli> {
    let words = args.get(1..)?;
    let first =
        words.first()?.to_str().filter(|word| !word.is_empty() && !word.starts_with('-'))?;
    if SUBCOMMANDS.contains(&first) {
        return None;
    }
    let command = Some(Command::Run(words.to_vec()));
    Some(Cli { flags: Flags::default(), version: false, check: false, command })
}

/// Flags whose value is the next word.
const WITH_VALUE: &[&str] = &[
    "-C",
    "--cwd",
    "-c",
    "--config",
    "--ro",
    "--rw",
    "--exclude",
    "--cmd",
    "--env",
    "--allow-host",
    "--color",
    "-s",
    "--session",
];

impl Command {
    /// Returns the word of a subcommand that clap took for a program.
    fn left_out(&self) -> Option<&'static str> {
        let Self::Run(words) = self else { return None };
        let known = SUBCOMMANDS.iter().filter(|word| **word != "help");
        known.copied().find(|known| words.first().is_some_and(|word| word == known))
    }

    /// The short form is told apart from `exec` again once it is parsed.
    fn told_apart(self, short: bool) -> Self {
        match self {
            Self::Exec { command, .. } if short => Self::Run(command),
            other => other,
        }
    }
}

/// `agent-sandbox [flags] -- COMMAND` is parsed as `agent-sandbox [flags] exec -- COMMAND`, and so is a
/// command whose name is not UTF-8. Returns true when `exec` was put in.
fn name_the_command(mut args: Vec<OsString>) -> (Vec<OsString>, bool) {
    let length = args.len();
    let mut at = 1;
    while let Some(word) = args.get(at) {
        match word.to_str() {
            Some("--") => {
                args.insert(at, "exec".into());
                break;
            }
            Some(flag) if WITH_VALUE.contains(&flag) => at += 2,
            Some(flag) if flag.starts_with('-') => at += 1,
            Some(_) => break,
            None if word.as_encoded_bytes().starts_with(b"-") => at += 1,
            // No subcommand has such a name, and clap would not take it for anything.
            None => {
                args.splice(at..at, ["exec".into(), "--".into()]);
                break;
            }
        }
    }
    let short = args.len() > length;
    (args, short)
}

#[cfg(test)]
mod tests;
