//! What can be said about a session's changes.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// What can be done with the changes of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep the present state of a session, to go back to
    Snapshot {
        /// What to call it; a number when left out
        name: Option<String>,
    },
    /// Go back to a snapshot
    Restore {
        /// The snapshot
        name: String,
    },
    /// Make a session that goes on from another
    Fork {
        /// What to call it
        new: String,
    },
    /// Tell what happened in a session
    History {
        /// The session; the latest one here when left out
        #[arg(value_name = "SESSION")]
        name: Option<String>,
    },
    /// Show what a session changed
    Diff(Diff),
    /// Take a session's changes over
    Apply(Apply),
    /// Throw a session's changes away
    Discard(Discard),
    /// Take the last apply back
    Undo(Undo),
}

/// Show what a session changed.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A session, then paths; the latest session here, and everything, when left out
    #[arg(value_name = "SESSION|PATH")]
    pub words: Vec<OsString>,
    /// How much changed in each file
    #[arg(long, conflicts_with_all = ["name_only", "patch"])]
    pub stat: bool,
    /// Only the paths
    #[arg(long, conflicts_with = "patch")]
    pub name_only: bool,
    /// Only the patch; where nobody looks, this is the default and what `git apply` takes
    #[arg(short, long)]
    pub patch: bool,
}

/// Take a session's changes over.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Apply {
    /// Only these paths; what runs code later is applied only when it is named
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Ask about every change, hunk by hunk
    #[arg(short, long)]
    pub interactive: bool,
    /// Apply the rest where some files conflict with what the host changed meanwhile
    #[arg(long)]
    pub partial: bool,
    /// Apply while the session runs
    #[arg(long)]
    pub live: bool,
    /// Complete an apply that was interrupted, and do nothing else
    #[arg(long, conflicts_with_all = ["paths", "interactive"])]
    pub resume: bool,
    /// Do not ask before many files are deleted
    #[arg(short, long)]
    pub yes: bool,
}

/// Throw a session's changes away.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// Only these paths
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// Take the last apply back.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// Take the rest back where some files changed since
    #[arg(long)]
    pub partial: bool,
}
