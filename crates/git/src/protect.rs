//! Protection of the git internals that a sandbox must not change (`@git`, `@git-strict`), as data for the
//! plan.
//!
//! All files read here may have been written by an earlier sandbox. So this module never runs git, resolves
//! symlinks itself and caps sizes. A repository's claim about another directory makes that directory
//! writable only if the directory confirms it.

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
pub(crate) use files::{lstat, read};
pub use files::{one_path, pointer_path, settle};
pub use search::{LARGE_DIRS, is_policy, module_dirs};

use sandbox_policy::Host;

/// Budget in a tree that was scanned before, whose repositories are known.
pub const REPEATED_SCAN: Budget = Budget { time: Duration::from_micros(250), entries: 4_000 };
/// Budget for the first run in a tree: long enough for this process to be scheduled on a busy machine.
pub const FIRST_SCAN: Budget = Budget { time: Duration::from_millis(50), entries: 50_000 };

/// Requirements for the repositories in reach of a sandbox. All paths are absolute and real.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitProtection {
    /// Repositories in reach.
    pub repos: Vec<Repo>,
    /// Existing files and directories to mount read-only.
    pub read_only: Vec<PathBuf>,
    /// Directories to mount onto themselves, so that they cannot be renamed away from above `read_only`.
    pub pins: Vec<PathBuf>,
    /// Directories outside the roots that must become writable for git to work in a worktree, a submodule, or a directory
    /// of a repository.
    pub writable: Vec<PathBuf>,
    /// The work tree of a repository around the work directory whose git directory is writable.
    pub enclosing: Option<PathBuf>,
    /// Missing paths that git would use: removed after the run if they appear.
    pub absent: Vec<PathBuf>,
    /// Existing files and directories that git uses, mounted or not: compared after the run. Files that the
    /// user changes on the host all the time, such as branches, are left out.
    pub watched: Vec<PathBuf>,
    /// Symlinks on the way to a protected path: compared after the run, because no mount can protect a
    /// symlink.
    pub links: Vec<Link>,
    /// Hook directories among `watched`.
    pub hooks: Vec<PathBuf>,
    /// Repositories outside the roots that stay read-only, with the reason.
    pub refused: Vec<Refused>,
    /// Configuration files of agent-sandbox below the roots.
    pub policies: Vec<PathBuf>,
    /// True when the search below the roots began. Without `@git` there is none.
    pub searched: bool,
    /// True when the budget ran out, so that nested repositories may be missing.
    pub stopped_early: bool,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repo {
    /// The `.git` entry of any type; for a bare repository the directory itself.
    pub entry: PathBuf,
    /// The git directory.
    pub git_dir: PathBuf,
    /// Directory of objects, refs, config and hooks. Differs from `git_dir` only in a worktree.
    pub common_dir: PathBuf,
    /// The directory that hooks run in.
    pub work_tree: Option<PathBuf>,
    /// Relation of the entry to the git directory.
    pub kind: RepoKind,
}

/// Relation of a `.git` entry to its git directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoKind {
    /// The entry is the git directory.
    Plain,
    /// A file that names a worktree's directory in another repository.
    Worktree,
    /// A file that names another git directory: a submodule, or `--separate-git-dir`.
    Pointer,
    /// A symbolic link.
    Link,
    /// There is no `.git`: the directory has the layout of a git directory.
    Bare,
    /// A submodule's git directory below `modules`.
    Module,
    /// A repository whose top is above the roots, and that stays read-only.
    Enclosing,
}

/// A symbolic link and its target, as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The link.
    pub path: PathBuf,
    /// Its text.
    pub target: PathBuf,
}

/// A git directory outside the roots that does not confirm the pointer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The pointer.
    pub entry: PathBuf,
    /// Git directory that it names.
    pub git_dir: PathBuf,
    /// Reason.
    pub why: Distrust,
}

/// Reason not to trust a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Distrust {
    /// Git would not accept it as a repository either.
    #[error("it is not a git directory")]
    NoGitDir,
    /// The repository does not name this worktree or submodule back.
    #[error("it does not point back")]
    NoBackPointer,
    /// It belongs to another user than the work directory.
    #[error("it belongs to another user")]
    OtherOwner,
    /// Making it writable would open much more than a repository.
    #[error("it contains more than a repository")]
    TooWide,
}

/// Failure to protect a repository.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProtectError {
    /// Its settings cannot be read.
    #[error("`{}` is too large for a git configuration file", path.display())]
    ConfigTooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Every loose branch needs a separate mount.
    #[error("`{}` contains more than {limit} loose branches, too many for `@git-strict`", heads.display())]
    TooManyBranches {
        /// The directory.
        heads: PathBuf,
        /// Maximum number that can be protected.
        limit: usize,
    },
}

impl Hint for ProtectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::ConfigTooLarge { path } => {
                Some(format!("check `{}`: git settings fit in a few kilobytes", path.display()))
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
/// `roots` are real paths, the work directory first. `known` are entries that an earlier scan found.
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
