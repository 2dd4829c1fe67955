//! Changes of a session in one repository: refs with their commits, `HEAD` and index.
//!
//! ```text
//! find      changed files of the git directory → refs, `HEAD` and index. Runs no program
//! inspect   the new commits of each ref, and the files in them that are held back. Runs git
//! ```

mod find;
mod inspect;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::index::Index;
use crate::refs::{ID_LENGTH, RefValue, is_id, short};

pub use find::{BaseFile, BaseFiles, ChangedPath, Sources, find};
pub use inspect::{HoldRules, inspect};

/// Changes of a session in one repository.
#[derive(Debug, Default)]
pub struct RepositoryChanges {
    /// Refs that the session changed.
    pub refs: Vec<RefChange>,
    /// Changes in the main checkout and in the linked ones.
    pub checkouts: Vec<Checkout>,
    /// Refs that git would not accept, by their paths in the git directory, with the reason.
    pub invalid: Vec<(PathBuf, String)>,
    /// Reason why none of it can be applied.
    pub refused: Option<String>,
    /// New objects and packs, by their paths in the git directory.
    pub objects: Vec<PathBuf>,
    /// Commits whose parents are missing in a new repository: the content of its file `shallow`.
    pub shallow: Option<Vec<u8>>,
    /// True when the session changed where the history of the host's repository is cut off.
    pub is_cut: bool,
}

/// Change of a ref.
#[derive(Debug, Clone)]
pub struct RefChange {
    /// Full name.
    pub name: String,
    /// Value on the host.
    pub before: Option<RefValue>,
    /// Value in the session.
    pub after: Option<RefValue>,
    /// Changes of the host since the session began.
    pub host: HostChange,
    /// New commits, as many as are listed.
    pub commits: Vec<Commit>,
    /// Number of new commits.
    pub count: usize,
    /// Changes of files that run code later.
    pub held: Vec<Held>,
    /// Reason why git would not accept it.
    pub refused: Option<String>,
    /// Log of the stash, which holds all stashes but the last.
    stash: Option<Vec<u8>>,
    /// True when one of the new commits is a merge.
    has_merge: bool,
}

/// Comparison of a value on the host with its state when the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostChange {
    /// Unchanged.
    Same,
    /// Changed.
    Changed,
    /// The value at the start of the session is unknown.
    Unknown,
}

/// Commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Object name.
    pub id: String,
    /// First line of the message, unescaped.
    pub subject: String,
}

/// File that can run code later, and that a ref or an index brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Commit that changes it; `None` if the ref itself was moved.
    pub commit: Option<String>,
    /// The file, below the work tree. Empty if the ref as a whole is held.
    pub path: PathBuf,
    /// Program that runs it, or the reason why the ref is held.
    pub why: String,
}

/// `HEAD` and index of one checkout.
#[derive(Debug, Default)]
pub struct Checkout {
    /// Empty for the main one, else `worktrees/NAME`.
    pub prefix: PathBuf,
    /// Change of `HEAD`.
    pub head: Option<HeadChange>,
    /// Change of the staged entries.
    pub index: Option<IndexChange>,
    /// `HEAD` of the session.
    pub in_session: Option<RefValue>,
    /// `HEAD` of the host.
    pub on_host: Option<RefValue>,
    /// Commit that the session's `HEAD` resolves to.
    commit: Option<RefValue>,
}

/// Change of a `HEAD`.
#[derive(Debug, Clone)]
pub struct HeadChange {
    /// Value on the host.
    pub before: Option<RefValue>,
    /// Value in the session.
    pub after: RefValue,
    /// True when the host changed it since the session began.
    pub moved: bool,
}

/// Change of an index.
#[derive(Debug)]
pub struct IndexChange {
    /// Entries of the session.
    pub session: Index,
    /// Entries of the host.
    pub host: Index,
    /// Number of entries that differ.
    pub count: usize,
    /// True when the host wrote it since the session began.
    moved: bool,
    /// True when entries that the host staged since would be lost.
    pub staged: bool,
    /// Staged, uncommitted files that can run code later.
    pub held: Vec<Held>,
    /// Reason why it stays in the session.
    pub stays: Option<String>,
}

impl RepositoryChanges {
    /// Returns true when there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        let same = |one: &Checkout| one.head.is_none() && one.index.is_none();
        self.refs.is_empty() && self.invalid.is_empty() && self.checkouts.iter().all(same)
    }

    /// Counts the refs that changed, and `HEAD` and index of each checkout as one.
    pub fn count(&self) -> usize {
        let changed = |one: &&Checkout| one.head.is_some() || one.index.is_some();
        let checkouts = self.checkouts.iter().filter(changed).count();
        (self.refs.len() + self.invalid.len()).max(checkouts)
    }
}

impl RefChange {
    fn new(
        name: String,
        before: Option<RefValue>,
        after: Option<RefValue>,
        host: HostChange,
    ) -> Self {
        let (commits, count, held, refused, stash) = (Vec::new(), 0, Vec::new(), None, None);
        let has_merge = false;
        Self { name, before, after, host, commits, count, held, refused, stash, has_merge }
    }

    /// Returns a short description of the change.
    pub fn describe(&self) -> String {
        let mut text = match (&self.before, &self.after) {
            (None, Some(after)) => format!("new at {}", after.short()),
            (Some(before), None) => format!("deleted, was {}", before.short()),
            (Some(before), Some(after)) => format!("{}..{}", before.short(), after.short()),
            (None, None) => String::new(),
        };
        if self.count > 0 {
            let plural = if self.count == 1 { "" } else { "s" };
            // Writing to a string cannot fail.
            let _ = write!(text, ", {} new commit{plural}", self.count);
        }
        text
    }

    /// Returns the lines of the stash's log, each with the stash that it added.
    pub fn stashes(&self) -> Vec<(&[u8], String)> {
        let log = self.stash.as_deref().filter(|_| self.after.is_some()).unwrap_or_default();
        let lines = log.split_inclusive(|byte| *byte == b'\n');
        let id = |line: &[u8], at: std::ops::Range<usize>| {
            let text = std::str::from_utf8(line.get(at)?).ok()?;
            is_id(text).then(|| text.to_owned())
        };
        let (before, after) = (0..ID_LENGTH, ID_LENGTH + 1..2 * ID_LENGTH + 1);
        let ids = |line: &[u8]| id(line, before.clone()).and(id(line, after.clone()));
        lines.filter_map(|line| Some((line, ids(line)?))).collect()
    }
}

/// Applies changes to a set of refs.
pub fn with_changes<'c>(
    refs: &BTreeMap<String, RefValue>,
    changes: impl IntoIterator<Item = &'c RefChange>,
) -> BTreeMap<String, RefValue> {
    let mut refs = refs.clone();
    for change in changes {
        match &change.after {
            Some(after) => drop(refs.insert(change.name.clone(), after.clone())),
            None => drop(refs.remove(&change.name)),
        }
    }
    refs
}

impl Held {
    /// Returns the commit, the file that it changes and the program that runs it, in words.
    pub fn describe(&self) -> String {
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
