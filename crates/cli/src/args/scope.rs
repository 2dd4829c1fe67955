//! Flags by command: which commands each flag applies to, and errors for flags without effect.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::failed::Failed;

/// Flags whose value is the next word.
pub(super) const WITH_VALUE: &[&str] = &[
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

/// Commands that build a policy from flags.
const POLICY: &[&str] = &["exec", "up", "why", "config show"];
/// Commands that read the configuration of a project.
const CONFIG: &[&str] = &[
    "exec",
    "up",
    "why",
    "config show",
    "config path",
    "trust",
    "secret test",
    "host-command check",
];
/// Commands about one session, by default that of the current directory.
const SESSION: &[&str] = &[
    "exec", "down", "attach", "logs", "restart", "inspect", "snapshot", "restore", "fork",
    "history", "diff", "apply", "discard", "undo",
];
/// Further commands that depend on the current directory.
const DIRECTORY: &[&str] = &["init", "blocked", "rm", "prune", "fs"];

/// Commands that print a script or a manual page, for another program.
const NOT_JSON: &[&str] = &["completions", "man"];

/// Returns the commands that a flag applies to, or nothing for a flag of all commands.
fn commands(flag: &str) -> Option<Vec<&'static str>> {
    let lists: &[&[&str]] = match flag {
        "cwd" => &[CONFIG, SESSION, DIRECTORY],
        "config" => &[CONFIG],
        "network" | "allow_host" | "docker" | "ro" | "rw" | "repo" | "exclude" | "commands"
        | "env" | "cow" => &[POLICY],
        // `up` refuses it with a hint to use `--name`.
        "session" => &[SESSION, &["up"]],
        "trust" => &[CONFIG, &["restart"]],
        "fail_on_blocked" | "debug" => &[&["exec"]],
        "dry_run" => &[&["exec", "up", "apply", "prune", "init", "image build"]],
        _ => return None,
    };
    let mut commands = Vec::new();
    for command in lists.iter().flat_map(|list| list.iter()) {
        if !commands.contains(command) {
            commands.push(*command);
        }
    }
    Some(commands)
}

/// Returns true when a flag has an effect on the command with this path, such as `config show`.
pub(super) fn applies(flag: &str, path: &str) -> bool {
    let within = |command: &str| {
        path.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    if flag == "json" {
        return !NOT_JSON.contains(&path);
    }
    commands(flag).is_none_or(|commands| commands.into_iter().any(within))
}

/// Returns the ids of the flags on the command line.
pub(super) fn given(matches: &ArgMatches) -> Vec<String> {
    let typed =
        |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    matches.ids().filter(typed).map(ToString::to_string).collect()
}

/// Returns the path of the subcommand, such as `config show`.
pub(super) fn path(mut matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    while let Some((name, below)) = matches.subcommand() {
        words.push(name);
        matches = below;
    }
    words.join(" ")
}

/// Returns an error if a flag has no effect on this command.
pub(super) fn refuse(path: &str, given: &[String]) -> Option<Failed> {
    let flag = given.iter().find(|flag| !applies(flag, path))?;
    let mut failed = Failed::usage(format!("`{}` has no effect on `{path}`", spelled(flag)));
    failed.hint = commands(flag)
        .map(|commands| format!("commands that take it: `{}`", commands.join("`, `")));
    Some(failed)
}

/// Returns the command-line spelling of the flag with this id.
fn spelled(id: &str) -> String {
    let name = if id == "commands" { "cmd".to_owned() } else { id.replace('_', "-") };
    format!("--{name}")
}

/// Returns an error if the command is probably a value for `--network`.
pub(super) fn refuse_value(args: &[OsString], command: &[OsString]) -> Option<Failed> {
    let value = command.first()?.to_str()?;
    let before = args.len().checked_sub(command.len() + 1)?;
    if args[before] != "--network" || !["off", "on", "none", "allow"].contains(&value) {
        return None;
    }
    let mut failed = Failed::usage("`--network` takes its value after `=`");
    failed.hint = Some(format!(
        "agent-sandbox --network={value} COMMAND; to run the program: agent-sandbox --network -- {value}"
    ));
    Some(failed)
}

/// Returns an error if there are flags and no command.
pub(super) fn refuse_no_command(args: &[OsString], given: &[String]) -> Option<Failed> {
    given.iter().find(|flag| *flag != "color")?;
    let mut failed = Failed::usage("no command to run");
    if let [.., flag, value] = args
        && let Some(flag) = flag.to_str().filter(|flag| WITH_VALUE.contains(flag))
    {
        let value = value.display();
        failed.hint = Some(format!(
            "`{flag}` takes `{value}` as its value: agent-sandbox {flag} {value} COMMAND"
        ));
    }
    Some(failed)
}
