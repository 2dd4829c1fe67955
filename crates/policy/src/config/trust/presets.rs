//! Presets that a file turns on or off, and whether that widens the policy.

use super::Widening;
use crate::config::file::unmarked;
use crate::config::layer::{Origin, Sourced};

/// Presets that are not groups, each with two flags: it restricts, it grants. `@base` does both.
const PARTS: [(&str, bool, bool); 6] = [
    ("@base", true, true),
    ("@secrets", true, false),
    ("@git", true, false),
    ("@git-strict", true, false),
    ("@caches", false, true),
    ("@agents", false, true),
];
/// Lint presets. A project may toggle its own lint rules, but not those that an earlier file turned on.
const LINT: [&str; 3] = ["@lint/ts", "@lint/go", "@lint/python"];

/// Returns true when a preset is on after these toggles. By default, all but `@git-strict` are on.
fn is_on(part: &str, toggles: &[Sourced<String>]) -> bool {
    let last = toggles.iter().rev().find(|toggle| names(&toggle.value, part));
    last.map_or(part != "@git-strict", |toggle| !toggle.value.starts_with('!'))
}

/// Returns true when a toggle applies to this preset: by its name, or by `@all`, which excludes `@git-strict`.
fn names(toggle: &str, part: &str) -> bool {
    let name = unmarked(toggle);
    name == part
        || name == "@all" && part != "@git-strict"
        || name == "@lint/all" && LINT.contains(&part)
}

/// Returns true when a layer of the user or the project turned a preset on.
fn is_asked_for(part: &str, toggles: &[Sourced<String>]) -> bool {
    let last = toggles.iter().rev().find(|toggle| names(&toggle.value, part));
    last.is_some_and(|toggle| toggle.origin != Origin::Default && !toggle.value.starts_with('!'))
}

/// Returns a widening for each toggle that decides about a preset and widens the policy.
pub(super) fn widenings(before: &[Sourced<String>], added: &[Sourced<String>]) -> Vec<Widening> {
    let after: Vec<_> = before.iter().chain(added).cloned().collect();
    let mut found = Vec::new();
    for (index, toggle) in added.iter().enumerate() {
        let on = !toggle.value.starts_with('!');
        let lint = LINT.iter().filter(|part| is_asked_for(part, before));
        let parts = PARTS.into_iter().chain(lint.map(|part| (*part, true, false)));
        let opened = parts.filter(|(part, guards, grants)| {
            let decides = names(&toggle.value, part)
                && !added[index + 1..].iter().any(|later| names(&later.value, part));
            let opens = if on { *grants } else { *guards };
            decides && opens && is_on(part, before) != is_on(part, &after)
        });
        let opened: Vec<_> = opened.map(|(part, ..)| format!("`{part}`")).collect();
        if !opened.is_empty() {
            let verb = if on { "on" } else { "off" };
            let detail = format!("turns {} {verb}", opened.join(", "));
            found.push(Widening::new("filesystem.presets", detail, &toggle.origin));
        }
    }
    found
}
