//! View of a path, computed from the plan's mounts, from the steps of one rendering, from the arguments of the other, and
//! from the documented precedence of rules.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox_core::plan::{self, BaseView, Mount, Plan};
use sandbox_core::render::bwrap::{self, Word};
use sandbox_core::render::own::{self, Hiding};
use sandbox_linux::root::{Hidden, Step};
use sandbox_policy::config::{Access, Tmp};

use super::world::{Rule, World};

/// View of a path, ordered by strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum View {
    Writable,
    ReadOnly,
    Hidden,
}

fn of_view(view: plan::View) -> View {
    match view {
        plan::View::ReadWrite | plan::View::Pin | plan::View::Device => View::Writable,
        plan::View::ReadOnly => View::ReadOnly,
        plan::View::EmptyFile | plan::View::EmptyDir => View::Hidden,
    }
}

/// Returns the view of a path through a list of mounts.
pub(crate) fn by_mounts(root_writable: bool, mounts: &[Mount], path: &Path) -> View {
    match plan::nearest(mounts, path) {
        Some(mount) => of_view(mount.view),
        None if BaseView::of(path, Tmp::Private) != BaseView::Host => View::Hidden,
        None if root_writable => View::Writable,
        None => View::ReadOnly,
    }
}

pub(crate) fn by_plan(plan: &Plan, path: &Path) -> View {
    by_mounts(plan.root_writable, &plan.mounts, path)
}

/// Returns the view of a path through the native mounts. The last one at or above the path is on top.
pub(crate) fn by_steps(plan: &Plan, hiding: Hiding, path: &Path) -> View {
    let root = own::root(plan, hiding, None);
    let base = if root.base.writable { View::Writable } else { View::ReadOnly };
    let shows = |step: &Step| match step {
        Step::Bind { target, read_only, .. } if path.starts_with(target) => {
            Some(if *read_only { View::ReadOnly } else { View::Writable })
        }
        Step::Tmpfs { target, .. } | Step::EmptyFile { target } | Step::EmptyDir { target }
            if path.starts_with(target) =>
        {
            Some(View::Hidden)
        }
        Step::Rebind { target, .. } if path.starts_with(target) => Some(View::ReadOnly),
        Step::HidingOverlay { dir, hidden } if path.starts_with(dir) => {
            let found = hidden.iter().find(|(name, _)| path.starts_with(dir.join(name)));
            Some(match found {
                // A symlink to a writable mount of the file.
                Some((_, Hidden::Link(_))) => View::Writable,
                Some(_) => View::Hidden,
                None => View::ReadOnly,
            })
        }
        _ => None,
    };
    root.steps.iter().rev().find_map(shows).unwrap_or(base)
}

/// Returns the view of a path through bubblewrap's mounts, which are made in the order of its arguments.
pub(crate) fn by_arguments(plan: &Plan, path: &Path) -> View {
    let words: Vec<String> = bwrap::arguments(plan)
        .words
        .iter()
        .map(|word| match word {
            Word::Text(text) => text.to_string_lossy().into_owned(),
            Word::Data(index) => format!("&{index}"),
        })
        .collect();
    let mut view = View::Hidden;
    let mut at = 0;
    while let Some(flag) = words.get(at) {
        let (takes, shown) = match flag.as_str() {
            "--bind" | "--dev-bind" => (2, Some(View::Writable)),
            "--ro-bind" => (2, Some(View::ReadOnly)),
            "--ro-bind-data" => (2, Some(View::Hidden)),
            "--tmpfs" | "--dev" | "--proc" => (1, Some(View::Hidden)),
            "--symlink" | "--chmod" => (2, None),
            "--dir" | "--perms" | "--remount-ro" | "--seccomp" | "--chdir" | "--uid" | "--gid"
            | "--cap-drop" => (1, None),
            _ => (0, None),
        };
        if let Some(shown) = shown.filter(|_| path.starts_with(&words[at + takes])) {
            view = shown;
        }
        at += 1 + takes;
    }
    view
}

/// Returns the view of a path by the documented precedence: a longer path beats a shorter one, an exact path beats a
/// glob, then the stricter view, then the later layer. A path without a rule is read-only. A rule whose path does not
/// exist has no effect.
pub(crate) fn by_text(world: &World, rules: &[Rule], path: &Path) -> View {
    let mut best = None;
    for rule in rules {
        let is_exact = !rule.pattern.contains(['*', '?', '[']);
        for real in meant(world, &rule.pattern, is_exact) {
            if path.starts_with(&real) {
                let length = real.components().count();
                best = best.max(Some((length, is_exact, rule.access, rule.layer)));
            }
        }
    }
    match best {
        Some((_, _, Access::Rw, _)) => View::Writable,
        None | Some((_, _, Access::Ro, _)) => View::ReadOnly,
        Some((_, _, Access::Exclude, _)) => View::Hidden,
    }
}

fn meant(world: &World, pattern: &str, is_exact: bool) -> Vec<PathBuf> {
    let named = if is_exact {
        vec![world.cwd.join(pattern)]
    } else {
        let segments: Vec<&str> = pattern.split('/').collect();
        matching(&world.cwd, &segments)
    };
    named.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Expands a glob naively. `**` matches any number of directories and does not follow symlinks.
fn matching(dir: &Path, segments: &[&str]) -> Vec<PathBuf> {
    let Some((first, rest)) = segments.split_first() else { return vec![dir.to_path_buf()] };
    let entries: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    if *first == "**" {
        let mut found = if rest.is_empty() { entries.clone() } else { matching(dir, rest) };
        for entry in entries.iter().filter(|entry| entry.is_dir() && !entry.is_symlink()) {
            found.extend(matching(entry, segments));
        }
        return found;
    }
    let named = entries
        .iter()
        .filter(|e| e.file_name().is_some_and(|name| fits(first, &name.to_string_lossy())));
    named.flat_map(|entry| matching(entry, rest)).collect()
}

fn fits(segment: &str, name: &str) -> bool {
    match segment {
        "*" => true,
        "?" => name.len() == 1,
        "[ab]" => name == "a" || name == "b",
        "[!a]" => name.len() == 1 && name != "a",
        "b*" => name.starts_with('b'),
        literal => name == literal,
    }
}
