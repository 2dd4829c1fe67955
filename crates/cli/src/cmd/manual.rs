//! Completions and manual pages, from the same definition as `--help`.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Prints completions.
pub(crate) fn completions(shell: Shell, io: &mut Stdio<'_>) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "agent-sandbox", &mut text);
    io.data(&String::from_utf8_lossy(&text));
    0
}

/// Prints the manual page, or writes one for each subcommand.
pub(crate) fn man(dir: Option<&Path>, io: &mut Stdio<'_>) -> Outcome {
    let Some(dir) = dir else {
        io.data(&page(Cli::command())?);
        return Ok(0);
    };
    let mut command = Cli::command();
    command.build();
    let mut pages = vec![("agent-sandbox".to_owned(), command.clone())];
    for sub in command.get_subcommands() {
        pages.push((format!("agent-sandbox-{}", sub.get_name()), sub.clone()));
    }
    std::fs::create_dir_all(dir).map_err(failed)?;
    for (name, command) in pages {
        std::fs::write(dir.join(format!("{name}.1")), page(command.display_name(name))?)
            .map_err(failed)?;
    }
    Ok(0)
}

fn page(command: Command) -> Result<String, Failed> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn failed(error: std::io::Error) -> Failed {
    Failed::new(error, None)
}
