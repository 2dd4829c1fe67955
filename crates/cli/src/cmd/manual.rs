//! Completions and manual pages, from the same definition as `--help`.

use std::path::Path;

use clap::Command;
use clap::builder::Resettable;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use sandbox_protocol::exit;
use sandbox_protocol::layout::RUNTIME_DIR;

use crate::args::help::{EXAMPLES, definition};
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

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
    std::fs::create_dir_all(dir).map_err(failed)?;
    for (name, page) in pages {
        std::fs::write(dir.join(format!("{name}.1")), page).map_err(failed)?;
    }
    Ok(0)
}

/// The pages of what stands below a command, at any depth.
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

/// The page of the program itself, with the sections that `--help` has no room for.
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
        "The command's own code passes through. The other codes are agent-sandbox's.",
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

fn failed(error: std::io::Error) -> Failed {
    Failed::new(error, None)
}

const DESCRIPTION: &str = "\
Runs a command, usually a coding agent, in a sandbox of Linux namespaces made with bubblewrap. \
The working directory is writable, the home directory is read-only, credentials are hidden, \
/tmp is private, and git's hooks and configuration cannot be changed.

The first word that is no flag is a subcommand if it is one, else the command to run. What stands \
after the command belongs to the command. \"exec\" or \"--\" names a command that is called like a \
subcommand or begins with a dash.

What is allowed is decided in layers: built-in rules, the user's configuration, the project's, \
and the flags. Of two rules for one path the longer one wins, then an exact path over a pattern, \
then the stricter view, then the later layer. A project's configuration can always close; what it \
opens has to be trusted once.";

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "AGENT_SANDBOX_TRUST",
        "\"1\" accepts what the project's configuration opens, as --trust does.",
    ),
    (
        "AGENT_SANDBOX_MOUNTS",
        "\"bwrap\" leaves all mounts to bubblewrap. \"doctor\" says what does not hold then.",
    ),
    (
        "AGENT_SANDBOX_PROXY_ADMIN_TOKEN",
        "What the admin interface of \"proxy --admin-listen\" asks for.",
    ),
    ("HOME", "The home directory, which is read-only inside."),
    ("PATH", "Where bwrap and the ruled commands are looked for."),
    ("XDG_CONFIG_HOME", "Where the user's configuration is; ~/.config by default."),
    ("XDG_STATE_HOME", "Where records of trust and of runs are; ~/.local/state by default."),
    (
        "XDG_RUNTIME_DIR",
        "A private, empty one inside. Outside, a Docker daemon of one's own may listen there.",
    ),
    ("DOCKER_HOST", "The daemon whose socket --docker shares; hidden otherwise."),
    ("NO_COLOR", "No colours, if it is set."),
    (
        "AGENT_SANDBOX_CMD, AGENT_SANDBOX_REAL",
        "Set for scripts that stand in for a command: its name, and where the real program is.",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        ".agent-sandbox.json, .agent-sandbox.jsonc, sandbox.toml",
        "The project's configuration, in the working directory. At most one of them.",
    ),
    (
        "~/.config/agent-sandbox/config.json, config.jsonc, config.toml",
        "The user's configuration. At most one of them.",
    ),
    ("~/.local/state/agent-sandbox", "Records of trust and of runs. No sandbox can write there."),
    (
        ".agentfs/ID.db",
        "A filesystem made by \"fs init\", below the current directory: a SQLite database in the tables of AgentFS.",
    ),
    (RUNTIME_DIR, "Inside a sandbox: this program, and what rules commands."),
];
