//! Protection against planted symlinks: links that an agent made must not widen the next sandbox.
//!
//! Take the rule `rw = ["build"]` for a directory that does not exist yet. An agent can create `build` as a symlink to
//! the home directory and wait for the next run. So a rule that follows a symlink in a directory that sandboxes can
//! write may restrict access, but never widen it.

use std::path::PathBuf;

use crate::specificity::decide;
use sandbox_policy::config::Access;
use sandbox_policy::path::Resolved;

/// Drops rules that widen access through a symlink in a writable directory.
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
                "{} `{}` ({}) is not applied: it follows a symlink to `{}` that a sandboxed command could have created; use the real path instead",
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

/// Returns the paths that rules may make writable without following a symlink that lies in another such path.
///
/// Two rules can each follow a symlink in the other's directory, and either link may be the planted one. So two sets
/// are narrowed in turn until they no longer change: paths that are certainly writable, and paths that may be. The
/// second starts with all of them and shrinks as the first grows. The order of the rules does not matter.
fn writable_places(rules: &[Resolved]) -> Vec<PathBuf> {
    let opened_without = |places: &[PathBuf]| -> Vec<PathBuf> {
        let opening = rules.iter().filter(|rule| rule.access == Access::Rw);
        opening.filter(|rule| !is_planted(rule, places)).map(|rule| rule.path.clone()).collect()
    };
    let mut may_be = opened_without(&[]);
    loop {
        let surely = opened_without(&may_be);
        let next = opened_without(&surely);
        if next.len() == may_be.len() {
            return may_be;
        }
        may_be = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_policy::config::Origin;
    use sandbox_policy::path::{Kind, Matched};

    fn rule(access: Access, path: &str, links: &[&str]) -> Resolved {
        Resolved {
            path: path.into(),
            kind: Kind::Dir,
            access,
            matched: Matched::Exact,
            origin: Origin::Flag(format!("--{} {path}", access.word())),
            pattern: path.to_owned(),
            links: links.iter().map(PathBuf::from).collect(),
        }
    }

    /// Returns the remaining paths and the number of notes about dropped rules. Checks both orders of the rules.
    fn left(rules: &[Resolved]) -> (Vec<String>, usize) {
        let apply = |mut rules: Vec<Resolved>| {
            let mut notes = Vec::new();
            restrict_planted(&mut rules, &mut notes);
            let mut left: Vec<_> =
                rules.iter().map(|rule| rule.path.display().to_string()).collect();
            left.sort();
            (left, notes.len())
        };
        let there = apply(rules.to_vec());
        assert_eq!(there, apply(rules.iter().rev().cloned().collect()), "the order matters");
        there
    }

    #[test]
    fn restrict_planted_drops_rules_that_widen_through_a_link_in_a_writable_directory() {
        use Access::{Exclude, Ro, Rw};
        let work = rule(Rw, "/w", &[]);
        for (why, rules, expected, notes) in [
            ("no link", vec![work.clone(), rule(Rw, "/x", &[])], &["/w", "/x"][..], 0),
            ("opens", vec![work.clone(), rule(Rw, "/home", &["/w"])], &["/w"], 1),
            ("opens deep", vec![work.clone(), rule(Rw, "/home", &["/w/a/b"])], &["/w"], 1),
            ("link elsewhere", vec![work.clone(), rule(Rw, "/x", &["/etc"])], &["/w", "/x"], 0),
            ("hides", vec![work.clone(), rule(Exclude, "/x", &["/w"])], &["/w", "/x"], 0),
            ("restricts", vec![work.clone(), rule(Ro, "/w/a", &["/w"])], &["/w", "/w/a"], 0),
            ("changes nothing", vec![work.clone(), rule(Ro, "/x", &["/w"])], &["/w"], 0),
            (
                "shows what is hidden",
                vec![work.clone(), rule(Exclude, "/s", &[]), rule(Ro, "/s/k", &["/w"])],
                &["/s", "/w"],
                1,
            ),
            (
                "a dropped rule makes nothing writable",
                vec![work.clone(), rule(Rw, "/x", &["/w"]), rule(Rw, "/y", &["/x"])],
                &["/w", "/y"],
                1,
            ),
            (
                "each by a link in the other",
                vec![rule(Rw, "/x", &["/y"]), rule(Rw, "/y", &["/x"])],
                &[],
                2,
            ),
        ] {
            let (left, count) = left(&rules);
            assert_eq!(left, expected, "{why}");
            assert_eq!(count, notes, "{why}");
        }
    }
}
