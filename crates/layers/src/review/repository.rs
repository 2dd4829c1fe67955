//! Git repositories of a review: their commits, and the effect of single steps on them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_core::inspect;
use sandbox_git::scratch::ScratchGit;

use super::error::ReviewError;
use super::open::{OpenRoot, Review};
use crate::git::Repository;

/// Number of reviews in this process, so that two reviews of a session do not share a scratch directory.
static REVIEWS: AtomicU64 = AtomicU64::new(0);

impl Review {
    /// Finds git in a search path and prepares it for the repositories of the session.
    pub fn git(&self, search_path: &OsStr) -> ScratchGit {
        let (pid, number) = (std::process::id(), REVIEWS.fetch_add(1, Ordering::Relaxed));
        let scratch = self.session.dir().join(format!("git-{pid}-{number}"));
        let dirs = std::env::split_paths(search_path).filter(|dir| dir.is_absolute());
        let program = { dirs }.map(|dir| dir.join("git")).find(|git| git.is_file());
        ScratchGit::new(program, scratch)
    }
}

/// Finds the commits of all repositories, and the files in them that run code later.
pub fn inspect(git: &ScratchGit, roots: &mut [OpenRoot]) -> Result<(), ReviewError> {
    for root in roots {
        let mut repositories = std::mem::take(&mut root.repositories);
        for repository in &mut repositories {
            repository.inspect(git, &root.view(), &inspect::runs_later, &inspect::is_harmless)?;
        }
        repositories.retain(|repository| !repository.is_empty());
        root.repositories = repositories;
    }
    Ok(())
}

/// Effect of one step of an apply on a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The path is not in a repository.
    Outside,
    /// The step changes a ref, `HEAD` or the index, described in a few words.
    Visible(String),
    /// The step writes an internal file of git.
    Internal,
}

impl OpenRoot {
    /// Returns the effect that a step at a path has on a repository.
    pub(super) fn effect(&self, path: &Path) -> Effect {
        let owner = |one: &&Repository| path.starts_with(&one.dir);
        let found = self.repositories.iter().filter(owner).max_by_key(|one| one.dir.iter().count());
        let Some(repository) = found.filter(|_| !self.is_file(path)) else {
            return Effect::Outside;
        };
        let inner = path.strip_prefix(&repository.dir).unwrap_or(path);
        if !repository.gone.is_empty() {
            let is_head = inner == Path::new("HEAD");
            return if is_head {
                Effect::Visible("the repository".into())
            } else {
                Effect::Internal
            };
        }
        if let Some(change) =
            repository.changes.refs.iter().find(|one| Path::new(&one.name) == inner)
        {
            return Effect::Visible(change.describe());
        }
        let state = ["HEAD", "index", "packed-refs"].iter().any(|name| inner.ends_with(name));
        if state && !inner.starts_with("logs") && !inner.starts_with("refs") {
            return Effect::Visible(String::new());
        }
        Effect::Internal
    }
}
