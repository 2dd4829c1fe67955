//! Symlinks that a sandbox could have planted must not widen the next one.
//!
//! A rule such as `rw = ["build"]` for a directory that does not exist yet is an invitation: the
//! agent makes `build` a link to the home directory and waits for the next run. So a rule that
//! follows a link out of a place that sandboxes can write may restrict, but never open.

use std::path::PathBuf;

use crate::config::Access;
use crate::path::Resolved;
use crate::specificity::decide;

/// Drops rules that open something only by way of a link inside a writable place.
pub(super) fn restrict_planted(rules: &mut Vec<Resolved>, notes: &mut Vec<String>) {
    if rules.iter().all(|rule| rule.links.is_empty()) {
        return;
    }
    let writable = writable_places(rules);
    if !rules.iter().any(|rule| is_planted(rule, &writable)) {
        return;
    }
    let (planted, trusted): (Vec<_>, Vec<_>) =
        rules.drain(..).partition(|rule| is_planted(rule, &writable));
    let decisions = decide(trusted.clone());
    *rules = trusted;
    for rule in planted {
        let now =
            decisions.covering(&rule.path).map_or(Access::Ro, |decision| decision.rule.access);
        if rule.access > now {
            rules.push(rule);
        } else if rule.access < now {
            notes.push(format!(
                "{} `{}` ({}) is not applied: it follows a symlink to `{}` that a sandboxed command could have made; name the real path instead",
                rule.access.word(),
                rule.pattern,
                rule.origin,
                rule.path.display()
            ));
        }
    }
}

fn is_planted(rule: &Resolved, writable: &[PathBuf]) -> bool {
    rule.links.iter().any(|link| writable.iter().any(|place| link.starts_with(place)))
}

/// Places that rules make writable without the help of a link that lies in another such place.
fn writable_places(rules: &[Resolved]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    loop {
        let before = places.len();
        for rule in rules.iter().filter(|rule| rule.access == Access::Rw) {
            if !is_planted(rule, &places) && !places.contains(&rule.path) {
                places.push(rule.path.clone());
            }
        }
        // A place found late may hold the link that led to an earlier one.
        let now: Vec<PathBuf> = rules
            .iter()
            .filter(|rule| rule.access == Access::Rw && !is_planted(rule, &places))
            .map(|rule| rule.path.clone())
            .collect();
        places.retain(|place| now.contains(place));
        if places.len() <= before {
            return places;
        }
    }
}
