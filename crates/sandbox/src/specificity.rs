//! Which rule wins, as an ordering.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;

use sandbox_policy::config::{Access, Layer};
use sandbox_policy::path::{Kind, Matched, Resolved, upward};

/// The one rule that decides about a path, and those that it beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The winner.
    pub rule: Resolved,
    /// The others for the same path, strongest first.
    pub beaten: Vec<Resolved>,
}

/// One decision for each path. Those for what does not exist are many, and most of what is asked
/// here is not about them, so they stand apart. Both lists are sorted by the bytes of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    present: Vec<Decision>,
    missing: Vec<Decision>,
}

/// How strong a rule is among those for the same path: exact beats glob, then the stricter
/// view, then the later layer.
fn strength(rule: &Resolved) -> (Matched, Access, Layer) {
    (rule.matched, rule.access, rule.origin.layer())
}

/// Gives every path exactly one decision. The order in which rules are given does not matter:
/// rules of equal strength want the same thing.
pub fn decide(rules: Vec<Resolved>) -> Decisions {
    let (missing, present) = rules.into_iter().partition(|rule| rule.kind == Kind::Missing);
    Decisions { present: group(present), missing: group(missing) }
}

/// The rules of each path together, the strongest in front.
fn group(mut rules: Vec<Resolved>) -> Vec<Decision> {
    let rank = |rule: &Resolved| Reverse(strength(rule));
    rules.sort_by(|a, b| {
        let by_path = a.path.as_os_str().cmp(b.path.as_os_str());
        by_path
            .then_with(|| (rank(a), &a.origin, &a.pattern).cmp(&(rank(b), &b.origin, &b.pattern)))
    });
    let mut decisions: Vec<Decision> = Vec::with_capacity(rules.len());
    for rule in rules {
        match decisions.last_mut() {
            Some(decision) if decision.rule.path.as_os_str() == rule.path.as_os_str() => {
                decision.beaten.push(rule);
            }
            _ => decisions.push(Decision { rule, beaten: Vec::new() }),
        }
    }
    decisions
}

impl Decisions {
    /// All of them: what exists, parents first, then what does not.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.present.iter().chain(&self.missing)
    }

    /// How many paths are decided that exist, and how many that do not.
    pub fn count(&self) -> (usize, usize) {
        (self.present.len(), self.missing.len())
    }

    /// The decision for exactly this path.
    pub fn at(&self, path: &Path) -> Option<&Decision> {
        let path = path.as_os_str();
        find(&self.present, path).or_else(|| find(&self.missing, path))
    }

    /// The decision that covers a path: its own, or that of the nearest parent which has one.
    /// Rules for what does not exist cover nothing.
    pub fn covering(&self, path: &Path) -> Option<&Decision> {
        upward(path).find_map(|path| find(&self.present, path))
    }

    /// The decision that covers the parent of a path.
    pub fn above(&self, path: &Path) -> Option<&Decision> {
        path.parent().and_then(|parent| self.covering(parent))
    }
}

fn find<'d>(decisions: &'d [Decision], path: &OsStr) -> Option<&'d Decision> {
    let by_bytes = |decision: &Decision| decision.rule.path.as_os_str().cmp(path);
    decisions.binary_search_by(by_bytes).ok().map(|index| &decisions[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Exclude, Ro, Rw};
    use Layer::{Builtin, Flags, Global, Project};
    use Matched::{Exact, Glob};
    use sandbox_policy::config::Origin;

    fn rule(path: &str, (matched, layer, access): (Matched, Layer, Access)) -> Resolved {
        let origin = match layer {
            Builtin => Origin::Preset("@base"),
            Flags => Origin::Flag("--flag".into()),
            layer => Origin::File { layer, path: Path::new("/f").into(), line: 1 },
        };
        let (path, pattern) = (path.into(), path.to_owned());
        Resolved { path, kind: Kind::Dir, access, matched, origin, pattern, links: Vec::new() }
    }

    #[test]
    fn decide_keeps_the_strongest_rule_when_several_name_one_path() {
        for (why, one, other, winner) in [
            ("exact beats glob", (Exact, Builtin, Ro), (Glob, Flags, Rw), 0),
            ("also a stricter glob", (Exact, Builtin, Rw), (Glob, Flags, Exclude), 0),
            ("stricter beats later", (Exact, Project, Exclude), (Exact, Flags, Rw), 0),
            ("read-only is stricter", (Exact, Flags, Rw), (Exact, Builtin, Ro), 1),
            ("hidden is strictest", (Glob, Flags, Ro), (Glob, Global, Exclude), 1),
            ("later beats earlier", (Exact, Global, Ro), (Exact, Project, Ro), 1),
        ] {
            for order in [[one, other], [other, one]] {
                let decisions = decide(order.map(|rule_| rule("/w", rule_)).to_vec());
                let decision = decisions.at(Path::new("/w")).unwrap();
                assert_eq!(decision.rule, rule("/w", [one, other][winner]), "{why}");
                assert_eq!(decision.beaten, [rule("/w", [one, other][1 - winner])], "{why}");
            }
        }
    }

    #[test]
    fn covering_is_the_nearest_rule_about_something_that_exists() {
        let missing = Resolved { kind: Kind::Missing, ..rule("/a/b/c", (Exact, Flags, Exclude)) };
        let decisions = decide(vec![
            missing,
            rule("/a/b", (Glob, Global, Ro)),
            rule("/a", (Exact, Global, Rw)),
        ]);
        for (path, expected) in [
            ("/", None),
            ("/ab", None),
            ("/a", Some("/a")),
            ("/a/x", Some("/a")),
            ("/a/b", Some("/a/b")),
            ("/a/b/c/d", Some("/a/b")),
        ] {
            let covering = decisions.covering(Path::new(path)).map(|d| d.rule.pattern.as_str());
            assert_eq!(covering, expected, "{path}");
        }
        assert_eq!(decisions.above(Path::new("/a/b")).map(|d| d.rule.access), Some(Rw));
        assert_eq!(decisions.above(Path::new("/")), None);
        assert_eq!(decisions.count(), (2, 1));
        let paths: Vec<_> = decisions.iter().map(|d| d.rule.pattern.as_str()).collect();
        assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
    }
}
