//! The command line: definitions of commands and flags, and parsing.

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
pub(crate) mod help;
#[cfg(feature = "proxy")]
pub(crate) mod proxy;
mod scope;
#[cfg(feature = "proxy")]
pub(crate) mod secret;
#[cfg(feature = "sessions")]
pub(crate) mod sessions;
pub(crate) mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use flags::{Flags, When};

use crate::failed::Failed;

/// Command line.
#[derive(Debug, Parser)]
#[command(
    name = "agent-sandbox",
    bin_name = "agent-sandbox",
    version,
    disable_version_flag = true,
    about = "Run any AI agent so that it can do its work and nothing else",
    override_usage = "agent-sandbox [FLAGS] COMMAND [ARG]...\n       agent-sandbox [FLAGS] SUBCOMMAND [ARG]...",
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

    /// Check if this process runs in a sandbox: exit code 0 inside, 1 outside
    #[arg(long, help_heading = "About")]
    pub check: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command, even one that has the name of a subcommand
    #[command(override_usage = "agent-sandbox exec [FLAGS] COMMAND [ARG]...")]
    Exec {
        /// Pass standard input to the command in a session
        #[cfg(feature = "sessions")]
        #[arg(short, long)]
        interactive: bool,
        /// Allocate a terminal for the command in a session
        #[cfg(feature = "sessions")]
        #[arg(short, long)]
        tty: bool,
        /// Command and its arguments
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "COMMAND"
        )]
        command: Vec<OsString>,
    },
    /// Check if this process runs in a sandbox
    #[command(after_help = "Exit code: 0 inside a sandbox, 1 outside.")]
    Check,
    /// Explain the rule for a path, host, command or variable
    Why(Why),
    /// Check what sandboxes need, and suggest fixes
    Doctor,
    /// Create a commented configuration for this project
    Init,
    /// Trust the configuration of this project
    Trust(Trust),
    /// Show the configuration
    #[command(subcommand)]
    Config(Config),
    #[cfg(feature = "layers")]
    /// Create, mount and inspect copy-on-write filesystems
    Fs {
        #[command(subcommand)]
        command: Option<fs::Fs>,
    },
    #[cfg(feature = "docker")]
    /// Build container images for agents
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
    /// Run host commands for an agent in a container
    #[command(name = "host-command")]
    Bridge {
        #[command(subcommand)]
        command: Option<host_command::HostCommand>,
    },
    /// List the hosts that the last run here was refused
    Blocked,
    /// Print completions for a shell
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or export all of them
    Man {
        /// Write a page for each subcommand to DIR
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Show help for a command
    Help {
        /// Command, and its subcommand
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Show the version
    Version,
    /// Command to run in the sandbox.
    #[command(external_subcommand)]
    Run(Vec<OsString>),
}

/// Explain the rule for a path, host, command or variable.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Why {
    /// Path, as the command would name it
    pub path: Option<PathBuf>,
    /// Explain a host on the network
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Explain a command
    #[arg(long, value_name = "NAME")]
    pub command: Option<String>,
    /// Explain an environment variable
    #[arg(long, value_name = "NAME")]
    pub variable: Option<String>,
}

/// Trust the configuration of this project.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// File [default: the project's only configuration that applies here]
    pub file: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["file", "revoke"])]
    pub list: bool,
    /// Revoke the trust
    #[arg(long)]
    pub revoke: bool,
}

/// Show the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the effective configuration, with the origin of each value
    Show,
    /// List the configuration files, and which of them are read
    Path,
    /// Print the JSON Schema of configuration files
    Schema,
}

/// Result of parsing.
#[derive(Debug)]
pub(crate) enum Typed {
    /// Valid command line.
    Understood(Box<Cli>),
    /// Request for help, or an error of clap.
    Answer(clap::Error),
    /// Valid syntax that has no meaning.
    Refused(Failed),
}

/// Reads the command line.
pub(crate) fn parse(args: Vec<OsString>) -> Typed {
    if let Some(cli) = without_flags(&args) {
        return Typed::Understood(Box::new(cli));
    }
    let (args, short) = name_the_command(args);
    match read(&args, short) {
        Ok(typed) => typed,
        // Only now are the flags sorted by command, which takes longer than parsing.
        Err(answer) if answer.kind() == ErrorKind::DisplayHelp => Typed::Answer(help::page(&args)),
        Err(answer) => Typed::Answer(answer),
    }
}

fn read(args: &[OsString], short: bool) -> Result<Typed, clap::Error> {
    let mut matches = Cli::command().try_get_matches_from(args)?;
    let given = scope::given(&matches);
    let path = scope::path(&matches);
    let mut cli = Cli::from_arg_matches_mut(&mut matches)?;
    if let Some(word) = cli.command.as_ref().and_then(Command::left_out) {
        return Err(not_in_this_build(word));
    }
    let refused = match &cli.command {
        Some(Command::Run(command) | Command::Exec { command, .. }) => {
            scope::refuse_value(args, command)
        }
        Some(_) => scope::refuse(&path, &given),
        None if cli.version || cli.check => None,
        None => scope::refuse_no_command(args, &given),
    };
    if let Some(failed) = refused {
        return Ok(Typed::Refused(failed));
    }
    cli.command = cli.command.map(|command| command.without_exec(short));
    Ok(Typed::Understood(Box::new(cli)))
}

/// Refuses a subcommand that this build leaves out. The program of that name does something else: `rm`.
fn not_in_this_build(word: &str) -> clap::Error {
    let text = format!(
        "this build has no `{word}`\n\nhint: to run the program: agent-sandbox exec {word} …\n"
    );
    Cli::command().error(ErrorKind::InvalidSubcommand, text)
}

/// Parses `agent-sandbox COMMAND …` without clap, which takes longer to set up than the whole plan may take.
fn without_flags(args: &[OsString]) -> Option<Cli> {
    let words = args.get(1..)?;
    let first =
        words.first()?.to_str().filter(|word| !word.is_empty() && !word.starts_with('-'))?;
    if help::subcommands().any(|known| known == first) {
        return None;
    }
    let command = Some(Command::Run(words.to_vec()));
    Some(Cli { flags: Flags::default(), version: false, check: false, command })
}

/// Returns true when `--json` is among the words before the command to run.
pub(crate) fn wants_json(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1).map(|word| word.to_str().unwrap_or_default());
    let mut json = false;
    while let Some(word) = words.next() {
        match word {
            "--" | "exec" => break,
            "--json" | "--json=true" | "--json=1" => json = true,
            flag if scope::WITH_VALUE.contains(&flag) => drop(words.next()),
            flag if flag.starts_with('-') => {}
            word if help::subcommands().any(|known| known == word) => {
                return json || words.take_while(|word| *word != "--").any(|word| word == "--json");
            }
            _ => break,
        }
    }
    json
}

impl Command {
    /// Returns the name of a subcommand that clap took for a program, because this build leaves it out.
    fn left_out(&self) -> Option<&'static str> {
        let Self::Run(words) = self else { return None };
        help::subcommands().find(|known| words.first().is_some_and(|word| word == known))
    }

    /// Turns `exec` back into the short form, if [`name_the_command`] inserted it.
    fn without_exec(self, short: bool) -> Self {
        match self {
            Self::Exec { command, .. } if short => Self::Run(command),
            other => other,
        }
    }
}

/// Turns `agent-sandbox [flags] -- COMMAND` into `agent-sandbox [flags] exec -- COMMAND`, also for a command whose name
/// is not UTF-8. Returns true when `exec` was inserted.
fn name_the_command(mut args: Vec<OsString>) -> (Vec<OsString>, bool) {
    let length = args.len();
    let mut at = 1;
    while let Some(word) = args.get(at) {
        match word.to_str() {
            Some("--") => {
                args.insert(at, "exec".into());
                break;
            }
            Some(flag) if scope::WITH_VALUE.contains(&flag) => at += 2,
            Some(flag) if flag.starts_with('-') => at += 1,
            Some(_) => break,
            None if word.as_encoded_bytes().starts_with(b"-") => at += 1,
            // No subcommand has such a name, and clap refuses it.
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
