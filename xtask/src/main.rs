//! Tasks of this repository, started by `./dev`, which installs the packages that they need.
//!
//! Modules stand in data-flow order: what is reported ([`say`]), where ([`workspace`]), how programs are run
//! ([`command`]), what has to be undone ([`made`]), what is fetched ([`tools`]), who and what tests run with ([`host`],
//! [`users`], [`engine`]), test executables ([`suites`]) and passes over them ([`passes`]), then the commands.

mod say;
mod workspace;
mod command;
mod made;
mod tools;
mod host;
mod users;
mod engine;
mod suites;
mod passes;
mod test;
mod rootless;
mod agents;
mod words;
mod check;
mod bench;
mod api;
mod soak;
mod tour;

use std::process::ExitCode;

use say::{Failure, Outcome};
use workspace::Workspace;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["clean-up"] {
        return made::clean_up_here();
    }
    let outcome = run(&words);
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            failure.print();
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<ExitCode, Failure> {
    let (command, rest) = words.split_first().unwrap_or((&"help", &[]));
    if let "help" | "-h" | "--help" = *command {
        say::print(include_str!("usage.txt"));
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = Workspace::find()?;
    let outcome = dispatch(&workspace, command, rest);
    let undone = workspace.made.undo_all();
    let done = outcome?;
    undone?;
    Ok(done)
}

fn dispatch(workspace: &Workspace, command: &str, rest: &[&str]) -> Result<ExitCode, Failure> {
    let success = |outcome: Outcome| outcome.map(|()| ExitCode::SUCCESS);
    match (command, rest) {
        ("setup", []) => success(tools::setup(workspace)),
        ("tour", [folder]) => success(tour::show(workspace, folder.as_ref())),
        ("test", rest) => test::test(workspace, rest),
        ("check", []) => check::check(workspace),
        ("words", []) => success(words::check(&workspace.root)),
        ("bench", [name, flags @ ..]) => success(bench::bench(workspace, name, flags)),
        ("soak", []) => soak::soak(workspace),
        _ => {
            say::say(include_str!("usage.txt").trim_end());
            Ok(ExitCode::from(2))
        }
    }
}
