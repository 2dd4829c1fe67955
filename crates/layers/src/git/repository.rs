//! Repository of a session: its new commits, and the scratch repositories in which git inspects them.

use std::path::{Path, PathBuf};

use sandbox_git::changes::{HoldRules, RepositoryChanges, inspect};
use sandbox_git::files::Files;
use sandbox_git::refs;
use sandbox_git::scratch::{Base, ScratchError, ScratchGit, ScratchRepository, is_copied};
use sandbox_linux::tree;
use thiserror::Error;

use crate::RelPath;
use crate::diff::{Change, DiffError, View};

/// Maximum size of a `shallow` file.
const MAX_SHALLOW: u64 = 1 << 20;

/// Changes of a session in one repository.
#[derive(Debug, Default)]
pub struct Repository {
    /// The git directory, below the root; empty if it is the root.
    pub dir: PathBuf,
    /// True when the host has no repository there.
    pub is_new: bool,
    /// Files to remove, if the session removed the repository.
    pub gone: Vec<Change>,
    /// Refs, `HEAD` and index.
    pub changes: RepositoryChanges,
}

/// Failure to inspect the commits of a session.
#[derive(Debug, Error)]
pub enum InspectError {
    /// Git failed or cannot run.
    #[error(transparent)]
    Git(#[from] ScratchError),
    /// The session or the host cannot be read.
    #[error(transparent)]
    Diff(#[from] DiffError),
}

impl Repository {
    /// Returns true when there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.changes.is_empty()
    }

    /// Returns the number of changed refs and checkouts. `HEAD` and index of a checkout count as one.
    pub fn count(&self) -> usize {
        self.changes.count().max(1)
    }

    /// Returns the path below the root of a path in the git directory.
    pub(crate) fn path(&self, inner: impl AsRef<Path>) -> Option<RelPath> {
        RelPath::new(self.dir.join(inner))
    }

    /// Finds the new commits of each ref and the files in them that are held back. If git rejects the repository, none
    /// of it can be applied.
    pub(crate) fn inspect(
        &mut self,
        git: &ScratchGit,
        view: &View<'_>,
        runs_later: &dyn Fn(&Path) -> Option<&'static str>,
        is_harmless: &dyn Fn(&std::ffi::OsStr, &[u8]) -> bool,
    ) -> Result<(), InspectError> {
        if !self.gone.is_empty() || self.changes.refused.is_some() {
            return Ok(());
        }
        let tree = self.dir.parent().unwrap_or(Path::new("")).to_path_buf();
        let leads_out = |link: &Path, target: &Path| {
            let link = RelPath::new(tree.join(link));
            link.is_none_or(|link| crate::apply::leads_out(&link, target, view.host.path()))
        };
        let rules = HoldRules { runs_later, is_harmless, leads_out: &leads_out };
        let inspected = self.scratch(git, view).and_then(|scratch| {
            inspect(&scratch, &mut self.changes, &rules).map_err(InspectError::from)
        });
        match inspected {
            Err(InspectError::Git(error)) if is_refusal(&error) => {
                self.changes.refused = Some(self.refusal(&error));
                Ok(())
            }
            inspected => inspected,
        }
    }

    /// Creates a scratch repository with the host's objects and the session's new ones.
    pub(super) fn scratch<'g>(
        &self,
        git: &'g ScratchGit,
        view: &View<'_>,
    ) -> Result<ScratchRepository<'g>, InspectError> {
        let scratch = self.scratch_of_host(git, view)?;
        for object in &self.changes.objects {
            let Ok(inner) = object.strip_prefix("objects") else { continue };
            if let Some(path) = self.path(object).filter(|_| is_copied(inner)) {
                let content = view.layer.open(&path).map_err(DiffError::from)?;
                scratch.add(inner, content)?;
            }
        }
        Ok(scratch.finish()?)
    }

    /// Creates a scratch repository with the host's objects only.
    pub(super) fn scratch_of_host<'g>(
        &self,
        git: &'g ScratchGit,
        view: &View<'_>,
    ) -> Result<ScratchRepository<'g>, InspectError> {
        git.program()?;
        let failed = |source| DiffError::Host { path: self.dir.clone(), source };
        let objects = self.dir.join("objects");
        let is_dir = view.host.kind(&objects).is_ok_and(|kind| kind == Some(tree::Kind::Dir));
        let shallow = match &self.changes.shallow {
            Some(text) => Some(text.clone()),
            None => {
                Files::read(view.host, &self.dir.join("shallow"), MAX_SHALLOW).map_err(failed)?
            }
        };
        let refs = refs::all_with_head(view.host, &self.dir).map_err(failed)?;
        let objects = is_dir.then(|| view.host.path().join(&objects));
        Ok(ScratchRepository::create(git, Base { objects, shallow, refs })?)
    }

    /// Describes why git failed, with a remedy if a shallow fetch is the cause.
    pub(super) fn refusal(&self, error: &ScratchError) -> String {
        if self.changes.is_cut && matches!(error, ScratchError::Refused { .. }) {
            return "the session has a shallow history (`.git/shallow`); run `git fetch --unshallow` in the session, \
                    or fetch on the host"
                .into();
        }
        error.to_string()
    }
}

/// Returns true for a failure of git on a repository, or if git is missing. Other errors are not about the repository.
pub(super) fn is_refusal(error: &ScratchError) -> bool {
    matches!(error, ScratchError::Missing | ScratchError::Refused { .. })
}
