//! Classification of a git directory's files by path: those that git runs or takes settings from.

/// Files that only hold the state of the repository.
const STATE: [&str; 15] = [
    "auto_merge",
    "cherry_pick_head",
    "commit_editmsg",
    "description",
    "fetch_head",
    "gc.log",
    "head",
    "index",
    "merge_head",
    "merge_mode",
    "merge_msg",
    "orig_head",
    "packed-refs",
    "rebase_head",
    "revert_head",
];
/// Files that hold settings or name another directory for settings or objects, at any depth.
const SETTINGS: [&str; 8] = [
    "alternates",
    "attributes",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "grafts",
    "http-alternates",
];
/// Indexes that git builds from the objects.
const INDEXES: [&str; 3] = ["commit-graph", "commit-graphs", "packs"];

const RUNS: &str = "git runs it";
const OBEYS: &str = "git takes settings from it";

/// Returns why git honours a file, given its folded names below the git directory. Files not known to be
/// harmless count as honoured, because git keeps adding new ones.
pub fn obeyed(names: &[&str]) -> Option<&'static str> {
    match names {
        ["objects", "info", name, ..] => (!INDEXES.contains(name)).then_some(OBEYS),
        [] | ["objects" | "refs" | "logs", ..] | ["info", "exclude" | "refs"] => None,
        ["hooks", ..] => Some(RUNS),
        [file] if STATE.contains(file) => None,
        ["modules" | "worktrees" | "lfs", rest @ ..] => in_another(rest),
        _ => Some(OBEYS),
    }
}

/// Classifies a file in the directory of a submodule or a worktree, whose name may contain slashes.
fn in_another(names: &[&str]) -> Option<&'static str> {
    let (last, dirs) = names.split_last()?;
    if dirs.contains(&"hooks") {
        return Some(RUNS);
    }
    (SETTINGS.contains(last) || *last == "git-rebase-todo").then_some(OBEYS)
}
