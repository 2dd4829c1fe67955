//! Precedence of rules, as an ordering.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;

use sandbox_policy::config::{Access, Layer};
use sandbox_policy::path::{Kind, Matched, Resolved, upward};

/// Rule that decides the view of a path, and the rules that it beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The winning rule.
    pub rule: Resolved,
    /// The other rules for the path, strongest first.
    pub beaten: Vec<Resolved>,
}

/// One decision for each path. Decisions about missing paths are many and rarely needed, so they are in a separate list.
/// Both lists are sorted by the bytes of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    present: Vec<Decision>,
    missing: Vec<Decision>,
}

/// Returns the strength of a rule among the rules for one path: exact beats glob, then the stricter view, then the later
/// layer.
fn strength(rule: &Resolved) -> (Matched, Access, Layer) {
    (rule.matched, rule.access, rule.origin.layer())
}

/// Gives every path exactly one decision. The order of the rules does not matter, because rules of equal strength give
/// the same view.
pub(crate) fn decide(rules: Vec<Resolved>) -> Decisions {
    let (missing, present) = rules.into_iter().partition(|rule| rule.kind == Kind::Missing);
    Decisions { present: group(present), missing: group(missing) }
}

/// Groups the rules by path, strongest first.
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
    /// Iterates over all decisions: existing paths, parents first, then missing ones.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.present.iter().chain(&self.missing)
    }

    /// Returns the number of decisions about existing paths, and about missing ones.
    pub fn count(&self) -> (usize, usize) {
        (self.present.len(), self.missing.len())
    }

    /// Returns the decision for exactly this path.
    pub fn at(&self, path: &Path) -> Option<&Decision> {
        let path = path.as_os_str();
        find(&self.present, path).or_else(|| find(&self.missing, path))
    }

    /// Returns the decision that covers a path: the one for the path, or for its nearest parent. Decisions about missing
    /// paths cover nothing.
    pub fn covering(&self, path: &Path) -> Option<&Decision> {
        upward(path).find_map(|path| find(&self.present, path))
    }

    /// Returns the decision that covers the parent of a path.
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
    fn covering_returns_the_nearest_decision_about_an_existing_path() {
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
