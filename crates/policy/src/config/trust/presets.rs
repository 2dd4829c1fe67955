//! Which presets a file's toggles turn on or off, and whether that opens something.

use super::Widening;
use crate::config::file::unmarked;
use crate::config::layer::Sourced;

/// The presets that are no group of others, with what they do: a guard shuts, a grant opens.
/// `@base` does both. The lint presets are not here: a project may toggle its own lint rules.
const PARTS: [(&str, bool, bool); 6] = [
    ("@base", true, true),
    ("@secrets", true, false),
    ("@git", true, false),
    ("@git-strict", true, false),
    ("@caches", false, true),
    ("@agents", false, true),
];

/// Whether a preset is on after these toggles; all but `@git-strict` are, to begin with.
fn is_on(part: &str, toggles: &[Sourced<String>]) -> bool {
    let last = toggles.iter().rev().find(|toggle| names(&toggle.value, part));
    last.map_or(part != "@git-strict", |toggle| !toggle.value.starts_with('!'))
}

/// Whether a toggle means this preset, by its name or by `@all`, which leaves `@git-strict` alone.
fn names(toggle: &str, part: &str) -> bool {
    let name = unmarked(toggle);
    name == part || (name == "@all" && part != "@git-strict")
}

/// One widening for each toggle that has the last word on a preset and opens something by it.
pub(super) fn widenings(before: &[Sourced<String>], added: &[Sourced<String>]) -> Vec<Widening> {
    let after: Vec<_> = before.iter().chain(added).cloned().collect();
    let mut found = Vec::new();
    for (index, toggle) in added.iter().enumerate() {
        let on = !toggle.value.starts_with('!');
        let opened = PARTS.iter().filter(|(part, guards, grants)| {
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
