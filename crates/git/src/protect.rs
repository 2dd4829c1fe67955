//! `@git` and `@git-strict`: which git internals a sandbox must not change, as data for the plan.
//!
//! Everything that is read here may have been written by an earlier sandbox. So git is never run,
//! links are resolved by hand, sizes are capped, and what a repository says about itself never
//! makes a place writable unless that place says the same.

pub mod config;
pub mod danger;
mod files;
mod pointer;
mod repository;
mod search;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use sandbox_linux::walk::Budget;
use sandbox_protocol::Hint;
use thiserror::Error;

pub use files::{is_dot_git, is_git_shape};
pub use files::{one_path, pointer_path, settle};
pub use search::{HEAPS, module_dirs};

use sandbox_policy::Host;

/// For a start in a tree that was looked at before: its repositories are known by then.
pub const SHORT_LOOK: Budget = Budget { time: Duration::from_micros(250), entries: 4_000 };
/// For the first start in a tree: long enough for a busy machine to give us our turn.
pub const FIRST_LOOK: Budget = Budget { time: Duration::from_millis(50), entries: 50_000 };

/// What must hold for the repositories in reach of a sandbox. All paths are absolute and real.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitProtection {
    /// The repositories that were found.
    pub repos: Vec<Repo>,
    /// Existing files and directories to mount read-only.
    pub read_only: Vec<PathBuf>,
    /// Directories to mount onto themselves, so that they cannot be renamed away from above `read_only`.
    pub pins: Vec<PathBuf>,
    /// Directories outside the roots that must become writable for a worktree or submodule to work.
    pub writable: Vec<PathBuf>,
    /// What git would obey if it appeared: to be undone at the end.
    pub absent: Vec<PathBuf>,
    /// Existing files and folders that git obeys, mounted or not: to be compared at the end. What the
    /// user's own work on the host changes all the time, such as branches, is not among them.
    pub watched: Vec<PathBuf>,
    /// Links that a protected path leads through: to be compared at the end, as no mount holds a link.
    pub links: Vec<Link>,
    /// Those of `watched` that are folders of hooks.
    pub hooks: Vec<PathBuf>,
    /// Repositories outside the roots that stay read-only, with the reason.
    pub refused: Vec<Refused>,
    /// Nested repositories may have been missed: the budget ended first.
    pub stopped_early: bool,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repo {
    /// The `.git` entry, whatever it is; for a bare repository the directory itself.
    pub entry: PathBuf,
    /// The git directory.
    pub git_dir: PathBuf,
    /// Where objects, refs, config and hooks are; the git directory itself but in a worktree.
    pub common_dir: PathBuf,
    /// The directory that hooks run in.
    pub work_tree: Option<PathBuf>,
    /// How the entry leads to the git directory.
    pub kind: RepoKind,
}

/// How a `.git` entry leads to its git directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoKind {
    /// It is the git directory.
    Plain,
    /// A file that names a worktree's directory in another repository.
    Worktree,
    /// A file that names some other git directory: a submodule, or `--separate-git-dir`.
    Pointer,
    /// A symbolic link.
    Link,
    /// There is no `.git`: the directory itself is shaped like one.
    Bare,
    /// A submodule's git directory below `modules`.
    Module,
    /// A repository that begins above the roots: nothing of it is writable.
    Enclosing,
}

/// A symbolic link and where it points, as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The link.
    pub path: PathBuf,
    /// Its text.
    pub target: PathBuf,
}

/// A git directory that a pointer names but that does not agree to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The pointer.
    pub entry: PathBuf,
    /// What it names.
    pub git_dir: PathBuf,
    /// Why it stays read-only.
    pub why: Distrust,
}

/// Why a pointer is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Distrust {
    /// Git would not take it for a repository either.
    #[error("it is no git directory")]
    NoGitDir,
    /// The repository does not name this worktree or submodule back.
    #[error("it does not point back")]
    NoBackPointer,
    /// It belongs to another user than the work directory.
    #[error("it belongs to another user")]
    OtherOwner,
    /// Making it writable would make much more writable than a repository.
    #[error("it holds more than a repository")]
    TooWide,
}

/// Why a repository cannot be protected.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProtectError {
    /// Its settings cannot be known.
    #[error("`{}` is too large to be read as git configuration", path.display())]
    ConfigTooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Each loose branch needs a mount of its own.
    #[error("`{}` holds more than {limit} loose branches, too many for `@git-strict`", heads.display())]
    TooManyBranches {
        /// The directory.
        heads: PathBuf,
        /// The most that are protected.
        limit: usize,
    },
}

impl Hint for ProtectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::ConfigTooLarge { path } => {
                Some(format!("look at `{}`: git settings fit in a few kilobytes", path.display()))
            }
            Self::TooManyBranches { heads, .. } => {
                let git_dir = heads.parent().and_then(Path::parent).unwrap_or(heads);
                Some(format!("run `git --git-dir={} pack-refs --all`", git_dir.display()))
            }
        }
    }
}

/// Finds the repositories in reach of a sandbox that may write `roots`, and what must not change in them.
///
/// `roots` are real paths, the work directory first; `known` are entries that an earlier look found.
pub fn discover(
    host: &Host,
    roots: &[PathBuf],
    strict: bool,
    known: &[PathBuf],
    budget: Budget,
) -> Result<GitProtection, ProtectError> {
    let mut search = search::Search::new(host, roots, strict);
    search.users_config()?;
    if let Some(work) = roots.first() {
        search.enclosing(work)?;
    }
    for root in roots {
        search.root(root)?;
    }
    for entry in known {
        search.entry(entry, pointer::Trust::Nothing)?;
    }
    search.nested(budget)?;
    Ok(search.finish())
}
