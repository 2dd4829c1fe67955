//! Requests and responses of a review.

use sandbox_layers::review::{LeftReport, PlanReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problem;

/// Changes to apply to the project. An empty request applies all of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate option")]
pub struct Apply {
    /// Apply only these paths and everything below them. Relative paths start at the project. A file that can run code
    /// later is applied only if it is listed here.
    pub paths: Vec<String>,
    /// Apply the rest when some changes are held back or conflict with the host.
    pub partial: bool,
    /// Confirm that many files are deleted.
    pub yes: bool,
    /// Only complete an apply that was interrupted.
    pub resume: bool,
    /// Return the plan without changing anything.
    pub dry_run: bool,
}

/// Result of an apply.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Applied {
    /// Number of applied changes.
    pub applied: usize,
    /// True when an interrupted apply or undo was completed first.
    pub resumed: bool,
    /// The plan; absent when only an interrupted apply was completed.
    pub plan: Option<PlanReport>,
}

/// Revert of the last apply.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Undo {
    /// Revert the rest when some files changed since the apply.
    pub partial: bool,
}

/// Result of an undo.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reverted {
    /// Number of reverted changes.
    pub reverted: usize,
    /// Files that changed since the apply, and were not reverted.
    pub left: Vec<LeftReport>,
}

/// Changes to discard. An empty request discards all of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Discard {
    /// Discard only these paths and everything below them. Relative paths start at the project.
    pub paths: Vec<String>,
}

/// Result of a discard.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Discarded {
    /// Number of discarded files, links, directories and repositories.
    pub discarded: usize,
}

/// Checks the paths of a request. No path can be empty or contain NUL.
pub(in crate::http) fn check_paths(paths: &[String]) -> Result<(), Problem> {
    if paths.iter().any(|path| path.is_empty() || path.contains('\0')) {
        return Err(Problem::new("invalid", "a path is empty or contains NUL"));
    }
    Ok(())
}
