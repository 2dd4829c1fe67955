//! Changes of git repositories: read as refs and commits, applied as one unit.
//!
//! ```text
//! place    path → the repository it belongs to
//! find     changes → files, and one `Repository` for each git directory
//! ask      what the real git says: new commits, and the files that they change
//! take     the pack, refs, `HEAD` and index of one repository → steps of an apply
//! ```
//! Everything in a session's repository is hostile. Git runs in a scratch repository with settings of
//! ours, and sees the session's objects alone: none of its settings, hooks, attributes or alternates.
//! Objects are never removed from the host, so that no ref of the host loses what it points to.

mod ask;
mod find;
mod inside;
mod log;
mod place;
mod take;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::RelPath;
use crate::diff::Change;

use crate::repository::Index;
pub use crate::repository::Value;
pub use ask::{Asker, GitError, Judge};
pub use find::{Sorted, sort};

/// Changes of a session in one repository.
#[derive(Debug, Default)]
pub struct Repository {
    /// The git directory, below the root; empty if it is the root.
    pub dir: PathBuf,
    /// The host has no repository there.
    pub is_new: bool,
    /// Files to remove, where the session removed the repository.
    pub gone: Vec<Change>,
    /// Refs that the session changed.
    pub refs: Vec<RefChange>,
    /// Changes in the main checkout and in the linked ones.
    pub checkouts: Vec<Checkout>,
    /// Refs that git would not take, and why.
    pub invalid: Vec<(PathBuf, String)>,
    /// Why none of it can be applied.
    pub refused: Option<String>,
    /// Objects that the layer has.
    objects: Vec<RelPath>,
    /// Where the history of a new repository is cut off.
    shallow: Option<Vec<u8>>,
    /// True when the session cut the history of the host's repository off elsewhere.
    cut: bool,
}

/// One ref.
#[derive(Debug, Clone)]
pub struct RefChange {
    /// Its full name.
    pub name: String,
    /// Value on the host.
    pub before: Option<Value>,
    /// Value in the session.
    pub after: Option<Value>,
    /// Changes of the host since the session began.
    pub host: Meanwhile,
    /// The new commits: some of them, and how many there are.
    pub commits: Vec<Commit>,
    /// How many new commits there are.
    pub count: usize,
    /// Changes of files that run code later.
    pub held: Vec<Held>,
    /// Why git would not take it.
    pub refused: Option<String>,
    /// The log of the stash, which holds all stashes but the last.
    stash: Option<Vec<u8>>,
    /// True when one of the new commits is a merge.
    merges: bool,
}

/// Changes of the host to one thing since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Nothing.
    Same,
    /// It changed it.
    Changed,
    /// The value at the start of the session is unknown.
    Unknown,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub id: String,
    /// The first line of its message, as it is.
    pub subject: String,
}

/// A file that runs code later, and arrives with a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The commit that changes it; nothing where the ref itself was moved.
    pub commit: Option<String>,
    /// The file, below the work tree.
    pub path: PathBuf,
    /// Program that runs it.
    pub why: String,
}

/// `HEAD` and index of one checkout.
#[derive(Debug, Default)]
pub struct Checkout {
    /// Empty for the main one, else `worktrees/NAME`.
    pub prefix: PathBuf,
    /// Where `HEAD` points.
    pub head: Option<HeadChange>,
    /// Change of the staged entries.
    pub index: Option<IndexChange>,
    /// `HEAD` of the session.
    inside: Option<Value>,
    /// The commit that it leads to.
    commit: Option<Value>,
    /// `HEAD` of the host.
    on_host: Option<Value>,
}

/// A changed `HEAD`.
#[derive(Debug, Clone)]
pub struct HeadChange {
    /// On the host.
    pub before: Option<Value>,
    /// In the session.
    pub after: Value,
    /// True when the host changed it since.
    pub moved: bool,
}

/// A changed index.
#[derive(Debug)]
pub struct IndexChange {
    /// The session's entries.
    session: Index,
    /// The host's entries.
    host: Index,
    /// How many entries differ.
    pub count: usize,
    /// True when the host wrote it since.
    moved: bool,
    /// True when entries that the host staged since would be lost.
    pub staged: bool,
    /// Files that run code later, and are staged but not committed.
    pub held: Vec<Held>,
    /// Why it stays in the session.
    pub stays: Option<String>,
}

impl RefChange {
    fn new(name: String, before: Option<Value>, after: Option<Value>, host: Meanwhile) -> Self {
        let (commits, count, held, refused, stash) = (Vec::new(), 0, Vec::new(), None, None);
        let merges = false;
        Self { name, before, after, host, commits, count, held, refused, stash, merges }
    }
}

impl Repository {
    /// Returns true when nothing is left that could be applied.
    pub fn is_empty(&self) -> bool {
        let same = |one: &Checkout| one.head.is_none() && one.index.is_none();
        self.gone.is_empty()
            && self.refs.is_empty()
            && self.invalid.is_empty()
            && self.checkouts.iter().all(same)
    }

    /// How many refs changed, counting `HEAD` and index of a checkout as one.
    pub fn count(&self) -> usize {
        let changed = |one: &&Checkout| one.head.is_some() || one.index.is_some();
        let checkouts = self.checkouts.iter().filter(changed).count();
        (self.refs.len() + self.invalid.len()).max(checkouts).max(1)
    }

    /// Says why git refused, and what to do where a shallow fetch is the cause.
    fn refusal(&self, error: &GitError) -> String {
        if self.cut && matches!(error, GitError::Refused { .. }) {
            return "the session fetched a history that is cut off (`.git/shallow`): run `git fetch --unshallow` \
                    in the session, or fetch on the host"
                .into();
        }
        error.to_string()
    }

    /// Its path below the root, as the user names it.
    pub fn path(&self, inner: impl AsRef<Path>) -> Option<RelPath> {
        RelPath::new(self.dir.join(inner))
    }

    /// Describes one ref update in a few words.
    pub fn words(change: &RefChange) -> String {
        let short = |value: &Value| match value {
            Value::Id(id) => short(id).to_owned(),
            Value::Symbolic(name) => name.clone(),
        };
        let mut text = match (&change.before, &change.after) {
            (None, Some(after)) => format!("new at {}", short(after)),
            (Some(before), None) => format!("deleted, was {}", short(before)),
            (Some(before), Some(after)) => format!("{}..{}", short(before), short(after)),
            (None, None) => String::new(),
        };
        if change.count > 0 {
            let plural = if change.count == 1 { "" } else { "s" };
            let _ = write!(text, ", {} new commit{plural}", change.count);
        }
        text
    }
}

impl Held {
    /// Which commit changes which file, and who runs that.
    pub fn words(&self) -> String {
        if self.path.as_os_str().is_empty() {
            return self.why.clone();
        }
        let path = self.path.display();
        match &self.commit {
            Some(commit) => format!("commit {} changes {path}: {}", short(commit), self.why),
            None => format!("changes {path}: {}", self.why),
        }
    }
}

/// The first characters of the name of an object.
pub fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}
