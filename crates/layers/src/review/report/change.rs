//! The changes of a session as data.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::PathText;
use super::repository::RepositoryReport;
use crate::diff::{Count, Side};
use crate::review::line::{Line, Status};
use crate::review::open::OpenRoot;
use crate::review::select::Selected;

/// Changes of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DiffReport {
    /// Name of the session.
    pub session: String,
    /// Changes of files, links and directories.
    pub changes: Vec<ChangeReport>,
    /// True when more files are deleted than are listed.
    pub truncated: bool,
    /// Changes of git repositories.
    pub repositories: Vec<RepositoryReport>,
}

impl DiffReport {
    /// Describes changes that were listed by [`lines`](crate::review::lines).
    pub fn new(session: &str, lines: &[Line<'_>], roots: &[OpenRoot], selected: &Selected) -> Self {
        let in_root = |root| {
            let selected = selected.repositories(root).into_iter();
            selected.map(move |repository| RepositoryReport::new(root, repository))
        };
        Self {
            session: session.to_owned(),
            changes: lines.iter().map(ChangeReport::from).collect(),
            truncated: roots.iter().any(|root| root.changes.truncated),
            repositories: roots.iter().flat_map(in_root).collect(),
        }
    }
}

/// One change.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// Directory of the host that the session's layer lies over.
    pub root: PathText,
    /// Path below the root.
    pub path: PathText,
    /// Kind of the change.
    pub status: Status,
    /// State on the host.
    pub before: Option<SideReport>,
    /// State in the session.
    pub after: Option<SideReport>,
    /// Lines added, where both sides are text.
    pub added: Option<usize>,
    /// Lines removed, where both sides are text.
    pub removed: Option<usize>,
    /// Reason for which the file runs code later.
    pub runs_later: Option<String>,
    /// True when the host changed it since the session began.
    pub host_changed: bool,
}

impl From<&Line<'_>> for ChangeReport {
    fn from(line: &Line<'_>) -> Self {
        let (added, removed) = match line.count {
            Count::Lines { added, removed } => (Some(added), Some(removed)),
            _ => (None, None),
        };
        Self {
            root: line.root.host.path().into(),
            path: line.change.path.as_path().into(),
            status: Status::of(line.change),
            before: line.change.before.as_ref().map(SideReport::from),
            after: line.change.after.as_ref().map(SideReport::from),
            added,
            removed,
            runs_later: line.later.clone(),
            host_changed: line.change.meanwhile,
        }
    }
}

/// One side of a change.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SideReport {
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// True when its owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// Its target.
        target: PathText,
    },
    /// A directory.
    Directory,
    /// A FIFO, a socket or a device.
    Special,
}

impl From<&Side> for SideReport {
    fn from(side: &Side) -> Self {
        match side {
            Side::File { size, executable } => Self::File { size: *size, executable: *executable },
            Side::Symlink { target } => Self::Symlink { target: Path::new(target).into() },
            Side::Dir => Self::Directory,
            Side::Special => Self::Special,
        }
    }
}
