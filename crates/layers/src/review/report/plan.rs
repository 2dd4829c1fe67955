//! The plan of an apply as data.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::PathText;
use crate::RelPath;
use crate::apply::{Left, Plan, Step};
use crate::review::line::Status;
use crate::review::open::{OpenRoot, Review};
use crate::review::plan::steps;

/// Plan of an apply.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PlanReport {
    /// Changes to the host.
    pub steps: Vec<StepReport>,
    /// Changes that run code later, and are applied only when they are named.
    pub held: Vec<LeftReport>,
    /// Changes that conflict with what the host changed since the session began.
    pub conflicts: Vec<LeftReport>,
    /// Changes that are never applied.
    pub refused: Vec<LeftReport>,
    /// Changes that reach the host in another form.
    pub notes: Vec<LeftReport>,
    /// Number of files and links that are deleted.
    pub deletions: usize,
}

impl PlanReport {
    /// Describes a plan for these roots.
    pub fn new(plan: &Plan, roots: &[OpenRoot]) -> Self {
        let lefts =
            |lefts: &[Left]| lefts.iter().map(|left| LeftReport::new(left, roots)).collect();
        let all = steps(plan, roots);
        Self {
            steps: all.iter().map(|(step, _)| StepReport::new(step, roots)).collect(),
            held: lefts(&plan.held),
            conflicts: lefts(&plan.conflicts),
            refused: lefts(&plan.refused),
            notes: lefts(&plan.notes),
            deletions: plan.deletions(),
        }
    }
}

/// One change to the host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepReport {
    /// Directory of the host that the session's layer lies over.
    pub root: PathText,
    /// Path below the root.
    pub path: PathText,
    /// `"add"`, `"delete"` or `"modify"`.
    pub action: String,
}

impl StepReport {
    fn new(step: &Step, roots: &[OpenRoot]) -> Self {
        let action = match step.status() {
            Status::Added => "add",
            Status::Deleted => "delete",
            Status::Modified | Status::Replaced => "modify",
        };
        Self {
            root: base(roots, step.root),
            path: step.path.as_path().into(),
            action: action.into(),
        }
    }
}

/// A change that is left out, or applied in another form.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftReport {
    /// Directory of the host that the session's layer lies over.
    pub root: PathText,
    /// Path below the root.
    pub path: PathText,
    /// Reason.
    pub why: String,
}

impl LeftReport {
    fn new(left: &Left, roots: &[OpenRoot]) -> Self {
        let path = left.path.as_path().into();
        Self { root: base(roots, left.root), path, why: left.why.clone() }
    }
}

impl Review {
    /// Describes a path that is left alone.
    pub fn left(&self, root: usize, path: &RelPath, why: &str) -> LeftReport {
        let (root, path) = (self.base(root).into(), path.as_path().into());
        LeftReport { root, path, why: why.to_owned() }
    }
}

fn base(roots: &[OpenRoot], number: usize) -> PathText {
    let root = roots.iter().find(|root| root.number == number);
    root.map_or(Path::new(""), |root| root.host.path()).into()
}
