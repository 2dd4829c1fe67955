//! `why --variable NAME`.

use std::ffi::OsStr;

use serde::Serialize;

use super::change::{Change, Step};
use super::policy::{Fate, Policy};
use super::{Answer, Explainer, WhyError};
use sandbox_policy::variable;

/// Answer about a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariableAnswer {
    /// Its name.
    pub name: String,
    /// The verdict.
    pub verdict: VariableVerdict,
    /// Reason for the verdict, unless it is passed by default or not set.
    pub fate: Option<Fate>,
    /// Origin of the decision.
    pub origin: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Suggested changes.
    pub changes: Vec<Change>,
}

/// Verdict about a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableVerdict {
    /// The command sees the caller's value.
    Passed,
    /// The command sees another value.
    Set,
    /// The caller has not set it.
    Unset,
    /// The command does not see it.
    Hidden,
}

impl Answer for VariableAnswer {
    fn strictness(&self) -> usize {
        usize::from(self.verdict == VariableVerdict::Hidden)
    }

    fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    fn allows(&self, _: &str) -> bool {
        self.verdict != VariableVerdict::Hidden
    }
}

pub(super) fn check(name: &str) -> Result<(), WhyError> {
    let bad = |c: char| c == '=' || c.is_control();
    let problem = match name {
        "" => "is empty",
        name if name.contains(bad) => "contains a character that is not allowed in a variable name",
        _ => return Ok(()),
    };
    Err(WhyError::Question {
        what: "the variable",
        text: name.to_owned(),
        problem: problem.to_owned(),
    })
}

pub(super) fn answer(explainer: &Explainer<'_>, level: usize, name: &str) -> VariableAnswer {
    let policy = &explainer.levels[level];
    let rule = policy.variables.iter().find(|variable| variable.name == name);
    let is_set = explainer.host.env.contains_key(OsStr::new(name));
    let verdict = match rule.map(|rule| rule.fate) {
        Some(Fate::Set) => VariableVerdict::Set,
        Some(Fate::Credential | Fate::Socket | Fate::Injecting) => VariableVerdict::Hidden,
        Some(Fate::Passed) | None if is_set => VariableVerdict::Passed,
        Some(Fate::Passed) | None => VariableVerdict::Unset,
    };
    VariableAnswer {
        name: name.to_owned(),
        verdict,
        fate: rule.map(|rule| rule.fate),
        origin: rule.map(|rule| rule.origin.clone()),
        notes: notes(policy, name, verdict),
        changes: change(explainer, level, name, verdict).into_iter().collect(),
    }
}

fn change(
    explainer: &Explainer<'_>,
    level: usize,
    name: &str,
    verdict: VariableVerdict,
) -> Option<Change> {
    let steps = [Step::Env(name.to_owned())];
    let hides = |fate| matches!(fate, Fate::Credential | Fate::Socket | Fate::Injecting);
    let then =
        (verdict == VariableVerdict::Hidden).then(|| explainer.attempt(level, &steps)).flatten()?;
    let hidden = then.variables.iter().any(|after| after.name == name && hides(after.fate));
    if hidden { None } else { Change::of("passed", &steps) }
}

fn notes(policy: &Policy, name: &str, verdict: VariableVerdict) -> Vec<String> {
    let unset = verdict == VariableVerdict::Unset;
    let ruled = policy.variables.iter().any(|variable| variable.name == name);
    let would =
        unset && !ruled && variable::hides_variable(OsStr::new(name), OsStr::new("x")).is_some();
    let passed = verdict == VariableVerdict::Passed;
    [
        would.then(|| "if it were set, preset @secrets would remove it".to_owned()),
        passed.then(|| format!("to leave it out: env -u {name} agent-sandbox …")),
    ]
    .into_iter()
    .flatten()
    .collect()
}
