//! The changes of a git repository as data.

use sandbox_git::changes::{Checkout, Held, HostChange, RefChange};
use sandbox_git::refs::RefValue;
use schemars::JsonSchema;
use serde::Serialize;

use super::PathText;
use crate::git::Repository;
use crate::review::line::Status;
use crate::review::open::OpenRoot;

/// Changes of one repository.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RepositoryReport {
    /// Directory of the host that the session's layer lies over.
    pub root: PathText,
    /// The git directory, below the root.
    pub path: PathText,
    /// Kind of the change.
    pub status: Status,
    /// Refs that changed.
    pub refs: Vec<RefReport>,
    /// `HEAD` and index of the main checkout and of linked ones.
    pub checkouts: Vec<CheckoutReport>,
    /// Reason for which none of it can be applied.
    pub refused: Option<String>,
}

impl RepositoryReport {
    pub(super) fn new(root: &OpenRoot, repository: &Repository) -> Self {
        let status = match (repository.is_new, repository.gone.is_empty()) {
            (true, _) => Status::Added,
            (_, false) => Status::Deleted,
            _ => Status::Modified,
        };
        Self {
            root: root.host.path().into(),
            path: repository.dir.as_path().into(),
            status,
            refs: repository.changes.refs.iter().map(RefReport::from).collect(),
            checkouts: repository.changes.checkouts.iter().map(CheckoutReport::from).collect(),
            refused: repository.changes.refused.clone(),
        }
    }
}

/// One ref.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RefReport {
    /// Full name.
    pub name: String,
    /// Value on the host.
    pub before: Option<String>,
    /// Value in the session.
    pub after: Option<String>,
    /// Number of new commits.
    pub new_commits: usize,
    /// New commits, at most 1000.
    pub commits: Vec<CommitReport>,
    /// Files in the new commits that run code later.
    pub runs_later: Vec<HeldReport>,
    /// True when the host changed it since the session began.
    pub host_changed: bool,
    /// Reason for which git would not accept it.
    pub refused: Option<String>,
}

impl From<&RefChange> for RefReport {
    fn from(change: &RefChange) -> Self {
        let commits = change.commits.iter();
        let commits = commits
            .map(|commit| CommitReport { id: commit.id.clone(), subject: commit.subject.clone() });
        Self {
            name: change.name.clone(),
            before: full(change.before.as_ref()),
            after: full(change.after.as_ref()),
            new_commits: change.count,
            commits: commits.collect(),
            runs_later: change.held.iter().map(HeldReport::from).collect(),
            host_changed: change.host == HostChange::Changed,
            refused: change.refused.clone(),
        }
    }
}

/// One commit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CommitReport {
    /// Object name.
    pub id: String,
    /// First line of the message.
    pub subject: String,
}

/// A file in a commit that runs code later.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HeldReport {
    /// Commit that changes the file; nothing where the ref was moved to it.
    pub commit: Option<String>,
    /// The file, below the work tree.
    pub path: PathText,
    /// Program that runs it.
    pub why: String,
}

impl From<&Held> for HeldReport {
    fn from(held: &Held) -> Self {
        let (commit, why) = (held.commit.clone(), held.why.clone());
        Self { commit, path: held.path.as_path().into(), why }
    }
}

/// `HEAD` and index of one checkout.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckoutReport {
    /// Empty for the main checkout, else `worktrees/NAME`.
    pub path: PathText,
    /// Change of `HEAD`.
    pub head: Option<HeadReport>,
    /// Number of staged entries that differ.
    pub index_entries: usize,
}

impl From<&Checkout> for CheckoutReport {
    fn from(checkout: &Checkout) -> Self {
        let head = checkout.head.as_ref().map(|head| HeadReport {
            before: full(head.before.as_ref()),
            after: full(Some(&head.after)),
        });
        let index_entries = checkout.index.as_ref().map_or(0, |index| index.count);
        Self { path: checkout.prefix.as_path().into(), head, index_entries }
    }
}

/// A changed `HEAD`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HeadReport {
    /// Value on the host.
    pub before: Option<String>,
    /// Value in the session.
    pub after: Option<String>,
}

fn full(value: Option<&RefValue>) -> Option<String> {
    match value? {
        RefValue::Id(text) | RefValue::Symbolic(text) => Some(text.clone()),
    }
}
