//! Findings and actions of a scan. Plain data: the caller that prints it escapes the names.

use std::fmt;
use std::path::{Path, PathBuf};

use sandbox_linux::raw;
use serde::{Serialize, Serializer};

/// As many files are listed one by one.
pub const MAX_LISTED: usize = 50;

/// Findings and actions of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What was moved aside, because git would have obeyed it.
    pub moved: Vec<Moved>,
    /// What was put back as it was at the start.
    pub restored: Vec<Restored>,
    /// New or changed files that run code later, by somebody's later command.
    pub runs_later: Vec<Later>,
    /// How many more of those there are than are listed.
    pub runs_later_unlisted: usize,
    /// Directory entries that were looked at.
    pub looked_at: usize,
    /// The look had to end before the tree did.
    pub stopped_early: bool,
    /// What could not be done.
    pub errors: Vec<Failure>,
}

/// Something that was moved aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Where it was.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// Where it is now.
    #[serde(serialize_with = "raw::path")]
    pub to: PathBuf,
    /// Why.
    pub why: Why,
}

/// Something that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
}

/// A file that runs code later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Later {
    /// The file.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// Who runs it, and when.
    pub why: &'static str,
}

/// Something that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// With what.
    #[serde(serialize_with = "raw::path")]
    pub path: PathBuf,
    /// What failed, and how.
    pub what: String,
}

/// Why something was moved aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It was not there at the start, and git obeys it.
    Planted,
    /// It was not there at the start, and this program would read it.
    PlantedConfig,
    /// It was not there at the start, and a rule of the user's keeps it read-only.
    AgainstRule,
    /// A link was put where a directory was.
    Link,
    /// It took the place of something else.
    Swapped,
    /// It was read-only, and is not what it was.
    Changed,
    /// Git runs it.
    Hook,
    /// Settings that run programs.
    Settings(Vec<String>),
    /// Settings that cannot be read, so nobody knows what git makes of them.
    UnreadableSettings,
    /// It sends git to another directory for its settings.
    CommonDir,
    /// It sends git to a place that the sandbox could not write.
    PointsOutside,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planted => "new, and git would obey it",
            Self::PlantedConfig => "new, and the next sandbox here would read it",
            Self::AgainstRule => "new, and a rule makes this path read-only",
            Self::Link => "a new link where a protected path leads through",
            Self::Swapped => "took the place of the repository",
            Self::Changed => "protected, but changed",
            Self::Hook => "git would run it",
            Self::Settings(keys) => {
                return write!(f, "settings that run programs: {}", keys.join(", "));
            }
            Self::UnreadableSettings => "git settings that cannot be read",
            Self::CommonDir => "would make git read its settings elsewhere",
            Self::PointsOutside => "points to a repository out of the sandbox's reach",
        })
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Report {
    /// Nothing to say.
    pub fn is_empty(&self) -> bool {
        let Self { moved, restored, runs_later, errors, stopped_early, .. } = self;
        let quiet = moved.is_empty() && restored.is_empty() && runs_later.is_empty();
        quiet && errors.is_empty() && !stopped_early
    }

    /// Adds what another look found.
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
