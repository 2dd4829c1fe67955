//! What of a repository's own directory git obeys, by path alone.

/// Files that only say where the repository stands.
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
/// What names other places to take settings or objects from, wherever it lies.
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
/// Indexes of objects, made from them.
const INDEXES: [&str; 3] = ["commit-graph", "commit-graphs", "packs"];

const RUNS: &str = "git runs it";
const OBEYS: &str = "git takes settings from it";

/// Why git obeys a file, given by its folded names below the repository's directory. What is not
/// known to be harmless counts as obeyed: git grows new files.
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

/// The directory of a submodule or a worktree, whose name may hold slashes.
fn in_another(names: &[&str]) -> Option<&'static str> {
    let (last, dirs) = names.split_last()?;
    if dirs.contains(&"hooks") {
        return Some(RUNS);
    }
    (SETTINGS.contains(last) || *last == "git-rebase-todo").then_some(OBEYS)
}
