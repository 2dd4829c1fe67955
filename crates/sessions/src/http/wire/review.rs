//! Requests and answers of a review.

use sandbox_layers::review::{LeftReport, PlanReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problem;

/// Changes to apply to the project. An empty request applies all of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Apply {
    /// Only these paths and what is below them; relative ones start at the project. A file that runs
    /// code later is applied only when it is named here.
    pub paths: Vec<String>,
    /// Apply the rest where some changes are held back or conflict with the host.
    pub partial: bool,
    /// Confirm that many files are deleted.
    pub yes: bool,
    /// Complete an apply that was interrupted, and do nothing else.
    pub resume: bool,
    /// Answer with the plan, and change nothing.
    pub dry_run: bool,
}

/// An apply.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Applied {
    /// Number of changes that were made on the host.
    pub applied: usize,
    /// True when an apply or undo that was interrupted was completed first.
    pub resumed: bool,
    /// The plan; nothing where only an interrupted apply was to be completed.
    pub plan: Option<PlanReport>,
}

/// Revert of the last apply.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Undo {
    /// Revert the rest where some files changed since the apply.
    pub partial: bool,
}

/// An apply that was reverted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reverted {
    /// Number of changes that were reverted.
    pub reverted: usize,
    /// Files that changed since the apply, and were left alone.
    pub left: Vec<LeftReport>,
}

/// Changes to discard. An empty request discards all of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Discard {
    /// Only these paths and what is below them; relative ones start at the project.
    pub paths: Vec<String>,
}

/// Changes that were discarded.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Discarded {
    /// Number of files, links, directories and repositories.
    pub discarded: usize,
}

/// Checks paths of a request. The kernel knows none that is empty or contains NUL.
pub(in crate::http) fn check_paths(paths: &[String]) -> Result<(), Problem> {
    if paths.iter().any(|path| path.is_empty() || path.contains('\0')) {
        return Err(Problem::new("invalid", "a path is empty or contains NUL"));
    }
    Ok(())
}
