//! Arguments of the commands that review a session's changes.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// Commands that review a session's changes.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a snapshot of a session
    Snapshot {
        /// Name of the snapshot [default: the next number]
        name: Option<String>,
    },
    /// Restore a session to a snapshot
    Restore {
        /// Snapshot
        name: String,
    },
    /// Create a session from an existing one
    Fork {
        /// Name of the new session
        new: String,
    },
    /// Show a session's log of runs and applies
    History {
        /// Session [default: the latest one of this directory]
        #[arg(value_name = "SESSION")]
        name: Option<String>,
    },
    /// Show what a session changed
    Diff(Diff),
    /// Apply a session's changes to the project
    Apply(Apply),
    /// Discard a session's changes
    Discard(Discard),
    /// Revert the last apply
    Undo(Undo),
}

/// Show what a session changed.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Session, then paths [default: everything in the latest session of this directory]
    #[arg(value_name = "SESSION|PATH")]
    pub words: Vec<OsString>,
    /// Show how much changed in each file
    #[arg(long, conflicts_with_all = ["name_only", "patch"])]
    pub stat: bool,
    /// Show only the paths
    #[arg(long, conflicts_with = "patch")]
    pub name_only: bool,
    /// Show only the patch, for `git apply`; the default when stdout is not a terminal
    #[arg(short, long)]
    pub patch: bool,
}

/// Apply a session's changes to the project.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each field is an independent flag")]
pub(crate) struct Apply {
    /// Apply only these paths; files that can run code are applied only by name
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Ask about each change, hunk by hunk
    #[arg(short, long)]
    pub interactive: bool,
    /// Skip files that conflict with later changes on the host
    #[arg(long)]
    pub partial: bool,
    /// Apply while the session is running
    #[arg(long)]
    pub live: bool,
    /// Only complete an apply that was interrupted
    #[arg(long, conflicts_with_all = ["paths", "interactive"])]
    pub resume: bool,
    /// Do not ask before deleting many files
    #[arg(short, long)]
    pub yes: bool,
}

/// Discard a session's changes.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// Discard only the changes at these paths
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// Revert the last apply.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// Skip files that changed since
    #[arg(long)]
    pub partial: bool,
}
