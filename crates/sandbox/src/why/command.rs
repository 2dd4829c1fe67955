//! `why --command NAME`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde::Serialize;

use super::change::{Change, Step};
use super::policy::{Policy, Ruling, list};
use super::{Answer, Explainer, WhyError};
use crate::wrapper;
use sandbox_policy::config::command_rule::CommandRule;

/// Answer about a command that is run by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandAnswer {
    /// The command.
    pub name: String,
    /// The verdict.
    pub verdict: CommandVerdict,
    /// The script that replaces it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// Origin of the rule; `None` when no rule matches.
    pub origin: Option<String>,
    /// Another command whose rule decides, because it resolves to the same file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// True when a program of that name exists.
    pub installed: bool,
    /// Every program of that name.
    #[serde(with = "list")]
    pub targets: Vec<PathBuf>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Suggested changes.
    pub changes: Vec<Change>,
}

/// Verdict about a command, in order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum CommandVerdict {
    /// The program itself runs.
    #[serde(rename = "raw")]
    Raw,
    /// A script of the user runs.
    #[serde(rename = "script")]
    Script,
    /// The wrapper for git runs.
    #[serde(rename = "@git")]
    Git,
    /// It is refused.
    #[serde(rename = "blocked")]
    Blocked,
}

impl CommandVerdict {
    fn of(rule: &CommandRule) -> Self {
        match rule {
            CommandRule::Raw => Self::Raw,
            CommandRule::Block => Self::Blocked,
            CommandRule::Builtin(sandbox_policy::config::command_rule::Builtin::Git) => Self::Git,
            CommandRule::Script(_) => Self::Script,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Script => "script",
            Self::Git => "@git",
            Self::Blocked => "blocked",
        }
    }
}

impl Answer for CommandAnswer {
    fn strictness(&self) -> usize {
        self.verdict as usize
    }

    fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    fn allows(&self, to: &str) -> bool {
        to == CommandVerdict::Blocked.word() || self.verdict == CommandVerdict::Raw
    }
}

pub(super) fn check(name: &str) -> Result<(), WhyError> {
    let problem = match name {
        "" => "is empty",
        "." | ".." => "is a directory",
        name if name.contains('/') => "is a path: run `why PATH`, or pass only the command name",
        name if name.starts_with('@') => "is not a command: names of presets start with `@`",
        name if name.contains(char::is_control) => "contains a control character",
        _ => return Ok(()),
    };
    Err(WhyError::Question {
        what: "the command",
        text: name.to_owned(),
        problem: problem.to_owned(),
    })
}

pub(super) fn answer(explainer: &Explainer<'_>, level: usize, name: &str) -> CommandAnswer {
    let policy = &explainer.levels[level];
    let search = explainer.host.search_path();
    let ruling = deciding(policy, name, &search);
    let own = policy.commands.iter().find(|ruling| ruling.name == name);
    let targets = own.map_or_else(|| programs(&search, name), |ruling| ruling.targets.clone());
    let rule = ruling.map(|ruling| &ruling.rule);
    let verdict = rule.map_or(CommandVerdict::Raw, |rule| CommandVerdict::of(&rule.value));
    let script = rule.and_then(|rule| match &rule.value {
        CommandRule::Script(path) => Some(path.clone()),
        _ => None,
    });
    CommandAnswer {
        name: name.to_owned(),
        verdict,
        script,
        origin: rule.map(|rule| rule.origin.clone()),
        through: ruling.map(|ruling| ruling.name.clone()).filter(|through| through != name),
        notes: notes(ruling, &targets),
        installed: !targets.is_empty(),
        targets,
        changes: changes(explainer, level, name, verdict),
    }
}

/// Returns the rule that the launcher will find: by name, or by the file that the name resolves to.
fn deciding<'p>(policy: &'p Policy, name: &str, search: &[PathBuf]) -> Option<&'p Ruling> {
    let named = |name: &OsStr| policy.commands.iter().find(|ruling| name == ruling.name.as_str());
    if let Some(own) = named(OsStr::new(name)) {
        return Some(own);
    }
    let target = programs(search, name).into_iter().next()?;
    if !policy.covers.contains(&target) || wrapper::is_multicall(&target) {
        return None;
    }
    let leads = |ruling: &&Ruling| {
        ruling.rule.value != CommandRule::Raw && ruling.targets.contains(&target)
    };
    let blocked = |ruling: &&Ruling| ruling.rule.value == CommandRule::Block;
    let mut all = policy.commands.iter().filter(leads);
    let strictest = || policy.commands.iter().filter(leads).find(blocked).or_else(|| all.next());
    target.file_name().and_then(named).or_else(strictest)
}

fn programs(search: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let runs = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let mut found: Vec<PathBuf> = Vec::new();
    for path in search.iter().map(|dir| dir.join(name)).filter(runs) {
        let real = fs::canonicalize(&path).unwrap_or(path);
        if !found.contains(&real) {
            found.push(real);
        }
    }
    found
}

fn notes(ruling: Option<&Ruling>, targets: &[PathBuf]) -> Vec<String> {
    let mut notes = Vec::new();
    if targets.is_empty() && ruling.is_some() {
        notes.push("no program of that name is in `PATH`".to_owned());
    }
    if ruling.is_some_and(|ruling| ruling.outer) {
        notes.push("the enclosing sandbox has a rule for it, which stays in effect".to_owned());
    }
    let of_rule = ruling.is_some_and(|ruling| ruling.rule.value != CommandRule::Raw);
    if of_rule && targets.len() > 1 {
        notes.push("the rule applies to all of these files".to_owned());
    }
    notes
}

/// Returns the changes that lift or add a rule.
fn changes(
    explainer: &Explainer<'_>,
    level: usize,
    name: &str,
    now: CommandVerdict,
) -> Vec<Change> {
    let rules = [CommandRule::Raw, CommandRule::Block];
    let search = explainer.host.search_path();
    let attempt = |rule: CommandRule| {
        let wanted = CommandVerdict::of(&rule);
        let steps = [Step::Command(name.to_owned(), rule)];
        let then = (wanted != now).then(|| explainer.attempt(level, &steps)).flatten()?;
        let ruling = deciding(&then, name, &search)?;
        let reached = !ruling.outer && CommandVerdict::of(&ruling.rule.value) == wanted;
        if reached { Change::of(wanted.word(), &steps) } else { None }
    };
    rules.into_iter().filter_map(attempt).collect()
}
