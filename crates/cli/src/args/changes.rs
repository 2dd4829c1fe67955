//! What can be said about a session's changes.

use std::ffi::OsString;

use clap::Args;

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

/// Remove sessions that nobody will miss.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Also these, with work that was not applied
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Also those without such work that were not used for so long
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub older_than: u64,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
