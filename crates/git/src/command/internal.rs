//! Git's calls to itself: `git stash push` runs `git reset --hard` after it has saved the changes.
//!
//! Such a call reaches the wrapper like any other, because git searches its exec path. It is allowed when the
//! caller is the real git, runs a command that is known to need it, and calls git by a full path. Shell code in
//! a hook or an `--exec` rarely uses a full path.

use std::ffi::OsString;

use super::RepoView;
use super::globals::{self, Invocation};

/// Each calling command with the commands that it needs.
const NEEDS: &[(&str, &[&str])] = &[
    ("am", &["read-tree", "reset"]),
    ("bisect", &["checkout"]),
    ("bisect--helper", &["checkout"]),
    ("cherry-pick", &["read-tree", "reset"]),
    ("clone", &["submodule", "read-tree"]),
    ("gc", &["prune", "reflog"]),
    ("maintenance", &["gc", "prune", "reflog"]),
    ("merge", &["read-tree", "reset"]),
    ("pull", &["read-tree", "reset"]),
    ("push", &["send-pack"]),
    ("rebase", &["am", "checkout", "read-tree", "reset"]),
    ("receive-pack", &["read-tree"]),
    ("reset", &["read-tree"]),
    ("revert", &["read-tree", "reset"]),
    ("stash", &["apply", "checkout", "checkout-index", "clean", "read-tree", "reflog", "reset"]),
    ("submodule--helper", &["checkout", "read-tree", "reset"]),
    ("switch", &["read-tree"]),
    ("worktree", &["reset"]),
];

pub(super) fn is_internal(argv: &[OsString], repo: &impl RepoView) -> bool {
    let by_path = argv.first().is_some_and(|name| name.as_encoded_bytes().contains(&b'/'));
    let Invocation::Runs { name, .. } = globals::invocation(argv) else { return false };
    if !by_path {
        return false;
    }
    let Some(caller) = repo.caller() else { return false };
    let Invocation::Runs { name: caller, args, .. } = globals::invocation(&caller) else {
        return false;
    };
    // `foreach` runs an arbitrary command.
    let runs_foreach = caller == "submodule--helper" && args.iter().any(|word| word == "foreach");
    let needed = NEEDS.iter().find(|(command, _)| caller == *command);
    !runs_foreach && needed.is_some_and(|(_, needed)| needed.iter().any(|command| name == *command))
}
