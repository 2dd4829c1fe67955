//! Which rule wins, as an ordering.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::{Access, Layer};
use crate::path::{Kind, Matched, Resolved};

/// The one rule that decides about a path, and those that it beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The winner.
    pub rule: Resolved,
    /// The others for the same path, strongest first.
    pub beaten: Vec<Resolved>,
}

/// One decision for each path; longer paths come later than their parents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Decisions(BTreeMap<PathBuf, Decision>);

/// How strong a rule is among those for the same path: exact beats glob, then the stricter
/// view, then the later layer.
fn strength(rule: &Resolved) -> (Matched, Access, Layer) {
    (rule.matched, rule.access, rule.origin.layer())
}

/// Gives every path exactly one decision. The order in which rules are given does not matter:
/// rules of equal strength want the same thing.
pub fn decide(mut rules: Vec<Resolved>) -> Decisions {
    rules.sort_by(|a, b| {
        a.path.cmp(&b.path).then_with(|| {
            (Reverse(strength(a)), &a.origin, &a.pattern).cmp(&(
                Reverse(strength(b)),
                &b.origin,
                &b.pattern,
            ))
        })
    });
    let mut decisions: Vec<(PathBuf, Decision)> = Vec::with_capacity(rules.len());
    for rule in rules {
        match decisions.last_mut() {
            Some((path, decision)) if *path == rule.path => decision.beaten.push(rule),
            _ => decisions.push((rule.path.clone(), Decision { rule, beaten: Vec::new() })),
        }
    }
    // Built from sorted pairs, which costs no further comparison.
    Decisions(decisions.into_iter().collect())
}

impl Decisions {
    /// All of them, parents first.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.0.values()
    }

    /// How many paths are decided that exist, and how many that do not.
    pub fn count(&self) -> (usize, usize) {
        let missing =
            self.0.values().filter(|decision| decision.rule.kind == Kind::Missing).count();
        (self.0.len() - missing, missing)
    }

    /// The decision for exactly this path.
    pub fn at(&self, path: &Path) -> Option<&Decision> {
        self.0.get(path)
    }

    /// The decision that covers a path: its own, or that of the nearest parent which has one.
    /// Rules for what does not exist cover nothing.
    pub fn covering(&self, path: &Path) -> Option<&Decision> {
        path.ancestors().find_map(|path| {
            self.0.get(path).filter(|decision| decision.rule.kind != Kind::Missing)
        })
    }

    /// The decision that covers the parent of a path.
    pub fn above(&self, path: &Path) -> Option<&Decision> {
        path.parent().and_then(|parent| self.covering(parent))
    }
}
