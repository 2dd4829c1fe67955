//! Findings and actions of a scan. Plain data: the caller that prints it escapes the names.

use std::fmt;
use std::path::{Path, PathBuf};

use sandbox_linux::raw;
use serde::{Serialize, Serializer};

/// Maximum number of files listed one by one.
pub const MAX_LISTED: usize = 50;

/// Findings and actions of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files and directories moved aside, because git would have acted on them.
    pub moved: Vec<Moved>,
    /// Files and directories restored to their state at the start.
    pub restored: Vec<Restored>,
    /// New or changed files that a later command on the host runs.
    pub runs_later: Vec<Later>,
    /// Number of such files beyond those listed.
    pub runs_later_unlisted: usize,
    /// Number of directory entries that were checked.
    pub looked_at: usize,
    /// True when the scan stopped before the end of the tree.
    pub stopped_early: bool,
    /// Actions that failed.
    pub errors: Vec<Failure>,
}

/// A file or directory that was moved aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its old path.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// Its new path.
    #[serde(serialize_with = "raw::path")]
    pub to: PathBuf,
    /// The reason.
    pub why: Why,
}

/// A file or directory that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Its path.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
}

/// A file that runs code later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Later {
    /// The file.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// The program that runs it, and when.
    pub why: &'static str,
}

/// An action that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The path it was about.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// The action and its error.
    pub what: String,
}

/// Reason for moving something aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It did not exist at the start, and git would act on it.
    Planted,
    /// It did not exist at the start, and the next sandbox would read it.
    PlantedConfig,
    /// It did not exist at the start, and a rule of the user makes it read-only.
    AgainstRule,
    /// A symlink replaced a directory.
    Link,
    /// It replaced something else.
    Swapped,
    /// It was read-only, but changed.
    Changed,
    /// Git would run it.
    Hook,
    /// Settings that run programs.
    Settings(Vec<String>),
    /// Settings that cannot be read, so their effect on git is unknown.
    UnreadableSettings,
    /// It makes git read its settings from another directory.
    CommonDir,
    /// It makes git use a repository that the sandbox could not write.
    PointsOutside,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planted => "new, and git would act on it",
            Self::PlantedConfig => "new, and the next sandbox here would read it",
            Self::AgainstRule => "new, and a rule makes this path read-only",
            Self::Link => "new symlink in a protected path",
            Self::Swapped => "replaced a protected file or directory",
            Self::Changed => "protected, but changed",
            Self::Hook => "git would run it",
            Self::Settings(keys) => {
                return write!(f, "git settings that run programs: {}", keys.join(", "));
            }
            Self::UnreadableSettings => "git settings that cannot be read",
            Self::CommonDir => "would make git read settings from another directory",
            Self::PointsOutside => "points to a repository that the sandbox cannot write",
        })
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Report {
    /// Returns true when there is nothing to report.
    pub fn is_empty(&self) -> bool {
        let Self { moved, restored, runs_later, errors, stopped_early, .. } = self;
        let quiet = moved.is_empty() && restored.is_empty() && runs_later.is_empty();
        quiet && errors.is_empty() && !stopped_early
    }

    /// Adds the findings of another scan.
    pub fn absorb(&mut self, other: Self) {
        self.moved.extend(other.moved);
        self.restored.extend(other.restored);
        self.errors.extend(other.errors);
        self.looked_at += other.looked_at;
        self.stopped_early |= other.stopped_early;
        self.runs_later_unlisted += other.runs_later_unlisted;
        for later in other.runs_later {
            self.later(later.path, later.why);
        }
    }

    pub(super) fn later(&mut self, path: PathBuf, why: &'static str) {
        if self.runs_later.iter().any(|later| later.path == path) {
            return;
        }
        if self.runs_later.len() < MAX_LISTED {
            self.runs_later.push(Later { path, why });
        } else {
            self.runs_later_unlisted += 1;
        }
    }

    pub(super) fn fail(&mut self, path: &Path, doing: &str, error: &dyn fmt::Display) {
        self.errors.push(Failure { path: path.to_path_buf(), what: format!("{doing}: {error}") });
    }
}
