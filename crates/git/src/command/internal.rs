//! Calls that git makes of itself: `git stash push` runs `git reset --hard` after it has saved the changes.
//!
//! Such a call finds the wrapper like any other, because git looks for itself in its exec path. It is let through
//! when the caller is the real git, runs a command that is known to need it, and named git by a full path, as git
//! does and as a shell line inside a hook or an `--exec` seldom would.

use std::ffi::OsString;

use super::RepoView;
use super::globals::{self, Invocation};

/// Commands (the one that calls, those it needs).
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
    ("rebase", &["checkout", "read-tree", "reset"]),
    ("receive-pack", &["read-tree"]),
    ("reset", &["read-tree"]),
    ("revert", &["read-tree", "reset"]),
    ("stash", &["checkout", "checkout-index", "clean", "read-tree", "reflog", "reset"]),
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
    // `foreach` runs what it is told to run.
    let obeys = caller == "submodule--helper" && args.iter().any(|word| word == "foreach");
    let needed = NEEDS.iter().find(|(command, _)| caller == *command);
    !obeys && needed.is_some_and(|(_, needed)| needed.iter().any(|command| name == *command))
}
