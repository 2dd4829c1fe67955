//! Completions and manual pages, from the same definition as `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::Resettable;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use sandbox_protocol::exit;
use sandbox_protocol::layout::RUNTIME_DIR;
use thiserror::Error;

use crate::args::help::{EXAMPLES, definition};
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

#[derive(Debug, Error)]
#[error("cannot write `{}`", .0.display())]
struct Write(PathBuf, #[source] io::Error);

/// Prints completions.
pub(crate) fn completions(shell: Shell, io: &mut Stdio<'_>) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut definition(), "agent-sandbox", &mut text);
    io.data(&String::from_utf8_lossy(&text));
    0
}

/// Prints the manual page, or writes one for each subcommand.
pub(crate) fn man(dir: Option<&Path>, io: &mut Stdio<'_>) -> Outcome {
    let command = definition();
    let Some(dir) = dir else {
        io.data(&main_page(&command)?);
        return Ok(0);
    };
    let mut pages = vec![("agent-sandbox".to_owned(), main_page(&command)?)];
    sub_pages("agent-sandbox", &command, &mut pages)?;
    std::fs::create_dir_all(dir).map_err(|error| failed(Write(dir.to_owned(), error)))?;
    for (name, page) in pages {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(|error| failed(Write(path, error)))?;
    }
    Ok(0)
}

/// Adds the pages of all subcommands, at any depth.
fn sub_pages(
    above: &str,
    command: &Command,
    pages: &mut Vec<(String, String)>,
) -> Result<(), Failed> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{above}-{}", sub.get_name());
        pages.push((name.clone(), page(sub.clone().display_name(&name))?));
        sub_pages(&name, sub, pages)?;
    }
    Ok(())
}

/// Returns the page of the program, with sections that are too long for `--help`.
fn main_page(command: &Command) -> Result<String, Failed> {
    let command = command.clone().long_about(DESCRIPTION).after_help(Resettable::Reset);
    let mut page = page(command)?;
    let end = page.find("\n.SH VERSION").map_or(page.len(), |at| at + 1);
    page.insert_str(end, &sections());
    Ok(page)
}

fn page(command: Command) -> Result<String, Failed> {
    let command = command.subcommand_help_heading("SUBCOMMANDS");
    let mut text = Vec::new();
    Man::new(command).manual("agent-sandbox manual").render(&mut text).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn sections() -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(
        "The exit code of the command passes through. The other codes are those of agent-sandbox.",
    )]);
    for row in exit::rows() {
        roff.control("TP", []).text([bold(row.code.to_string())]).text([roman(row.meaning)]);
    }
    for (title, entries) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        roff.control("SH", [title]);
        for (word, meaning) in entries {
            roff.control("TP", []).text([bold(*word)]).text([roman(*meaning)]);
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, meaning) in EXAMPLES {
        roff.control("TP", []).text([bold(*line)]).text([roman(*meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]).text([bold("bwrap"), roman("(1)")]);
    roff.to_roff()
}

fn failed(error: impl std::error::Error + 'static) -> Failed {
    Failed::new(error, None)
}

const DESCRIPTION: &str = "\
Runs a command, usually a coding agent, in a sandbox of Linux namespaces. The working directory is \
writable, the home directory is read-only, credentials are hidden, /tmp is private, and git's hooks \
and configuration cannot be changed.

If the first argument is not a subcommand, it is run as a command, with everything after it as its \
arguments. Use \"exec\" or \"--\" for a command that has the name of a subcommand or starts with a dash.

The policy comes from four layers: built-in rules, the user's configuration, the project's \
configuration, and the flags. If several rules apply to a path, the longest one wins, then an exact \
path over a pattern, then the stricter view, then the later layer. A project's configuration may \
always restrict the policy. Before it widens the policy, the user has to trust it once.";

const ENVIRONMENT: &[(&str, &str)] = &[
    ("AGENT_SANDBOX_TRUST", "If \"1\", trusts the project's configuration, like --trust."),
    (
        "AGENT_SANDBOX_MOUNTS",
        "If \"bwrap\", bubblewrap makes all mounts. \"doctor\" lists the limits of this mode.",
    ),
    ("AGENT_SANDBOX_PROXY_ADMIN_TOKEN", "Token for the admin API of \"proxy --admin-listen\"."),
    ("AGENT_SANDBOX_API_TOKEN", "Token for the session API of \"serve --listen\"."),
    ("HOME", "The home directory, which is read-only inside."),
    ("PATH", "Directories in which bwrap and commands with rules are found."),
    ("XDG_CONFIG_HOME", "Directory of the user's configuration; ~/.config by default."),
    ("XDG_STATE_HOME", "Directory of trust and run records; ~/.local/state by default."),
    (
        "XDG_RUNTIME_DIR",
        "Private and empty inside. Outside, directory of the proxy's sockets and of a rootless Docker daemon's socket.",
    ),
    ("DOCKER_HOST", "Docker daemon whose socket --docker shares; hidden otherwise."),
    ("NO_COLOR", "If set, disables colours."),
    (
        "AGENT_SANDBOX_CMD, AGENT_SANDBOX_REAL",
        "Set for scripts that replace a command: its name, and the path of the real program.",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        ".agent-sandbox.json, .agent-sandbox.jsonc, sandbox.toml",
        "The project's configuration, in the working directory and in each directory above it, up to home. A directory may have only one of these files.",
    ),
    (
        "~/.config/agent-sandbox/config.json, config.jsonc, config.toml",
        "The user's configuration. Only one of these files may exist.",
    ),
    ("~/.local/state/agent-sandbox", "Trust and run records. No sandbox can write to it."),
    (
        ".agentfs/ID.db",
        "A filesystem of \"fs init\", below the current directory: a SQLite database with the tables of AgentFS.",
    ),
    (RUNTIME_DIR, "Inside a sandbox: this program, and the wrappers of commands that have rules."),
];
