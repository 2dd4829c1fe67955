//! Session opened for review, and its roots.

use std::path::{Path, PathBuf};

use super::error::ReviewError;
use crate::apply::{self, ApplyError, Base, Journal, Target};
use crate::diff::{Change, Changes, View, compare};
use crate::git::{self, Repository, Sorted};
use crate::host::HostTree;
use crate::session::{
    BaseRecord, Freeze, FrozenSession, LayerSession, Lock, RunState, SessionError,
};
use crate::{Layer, RelPath};

/// Session opened for review.
pub struct Review {
    pub(super) session: LayerSession,
    /// Held if nothing runs in the session.
    pub(super) lock: Option<Lock>,
    /// Held while the processes of the session are frozen.
    frozen: Option<FrozenSession>,
}

impl Review {
    /// Opens a session. Completes a killed run first.
    pub fn open(mut session: LayerSession) -> Result<Self, ReviewError> {
        let lock = match session.lock() {
            Ok(lock) => Some(lock),
            Err(SessionError::Busy { .. } | SessionError::Held { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(lock) = &lock {
            session.settle(lock)?;
        }
        Ok(Self { session, lock, frozen: None })
    }

    /// Returns the session's name.
    pub fn name(&self) -> &str {
        &self.session.record().name
    }

    /// Fails if the session is in use, and reports by what.
    pub fn check_stopped(&self) -> Result<(), ReviewError> {
        self.stopped().map(drop)
    }

    pub(super) fn stopped(&self) -> Result<&Lock, ReviewError> {
        let name = || self.name().to_owned();
        self.lock.as_ref().ok_or_else(|| match self.session.state() {
            RunState::Held(_) => ReviewError::Up(name()),
            _ => ReviewError::Running(name()),
        })
    }

    /// Freezes the processes of the session for as long as it is open.
    pub fn freeze(&mut self, freeze: Freeze<'_>) -> Result<(), ReviewError> {
        self.frozen = Some(self.session.freeze(freeze)?);
        Ok(())
    }

    /// Opens all roots and compares them with the host.
    pub fn roots(&self) -> Result<Vec<OpenRoot>, ReviewError> {
        let mut roots = self.bare_roots()?;
        for root in &mut roots {
            self.compare(root)?;
        }
        Ok(roots)
    }

    /// Opens all roots without their changes, which is enough to complete or revert the steps of a journal.
    pub(super) fn bare_roots(&self) -> Result<Vec<OpenRoot>, ReviewError> {
        let count = self.session.record().roots.len();
        (0..count).map(|number| self.root(number)).collect()
    }

    fn root(&self, number: usize) -> Result<OpenRoot, ReviewError> {
        let host = open_base(&self.session, number)?;
        let layer = self.session.layer(number)?;
        let record = self.session.base_record(number)?;
        let changes = Changes::default();
        let (files, repositories) = (Vec::new(), Vec::new());
        Ok(OpenRoot { number, host, layer, record, changes, files, repositories })
    }

    /// Compares a root with the present state of the host.
    pub(super) fn compare(&self, root: &mut OpenRoot) -> Result<(), ReviewError> {
        root.changes = compare(root.layer.as_ref(), &root.host, &root.record)?;
        if let Ok(Some(journal)) = self.interrupted() {
            root.changes.list.retain(|change| !journal.is_temp(&change.path));
        }
        if self.lock.is_none() && self.frozen.is_none() {
            // The base of a running session is recorded at its end.
            root.changes.list.iter_mut().for_each(|change| change.meanwhile = false);
        }
        let Sorted { files, repositories } = git::sort(&root.view(), &root.changes.list)?;
        (root.files, root.repositories) = (files, repositories);
        Ok(())
    }

    /// Records the session's base after or before the steps of a journal.
    pub(super) fn keep(
        &self,
        roots: &[OpenRoot],
        journal: &Journal,
        base: Base,
    ) -> Result<(), ApplyError> {
        for root in roots {
            if !journal.steps.iter().any(|step| step.root == root.number) {
                continue;
            }
            let mut record = root.record.clone();
            match base {
                Base::New => apply::record_applied(journal, root.number, &root.host, &mut record)?,
                Base::Old => apply::record_reverted(journal, root.number, &root.host, &mut record)?,
            }
            let saved = self.session.save_base_record(root.number, &record);
            saved.map_err(|error| ApplyError::Base { source: Box::new(error) })?;
        }
        Ok(())
    }

    /// Returns the host's directory below a root.
    pub(super) fn base(&self, root: usize) -> &Path {
        self.session.base_dir(root).unwrap_or(Path::new(""))
    }

    /// Returns the full path of a change on the host.
    pub fn full_path(&self, root: usize, path: &RelPath) -> PathBuf {
        self.base(root).join(path.as_path())
    }
}

/// Opens the host's directory below a root of a session.
pub(super) fn open_base(session: &LayerSession, root: usize) -> Result<HostTree, ReviewError> {
    let path = session.base_dir(root)?;
    let opened = HostTree::open(path);
    opened.map_err(|source| ReviewError::Root { path: path.to_path_buf(), source })
}

/// Root of a session with its changes.
pub struct OpenRoot {
    /// Number of the root in the session.
    pub number: usize,
    /// Host's directory.
    pub host: HostTree,
    /// Layer over it.
    pub layer: Box<dyn Layer>,
    /// State of the host's directory when the layer was created.
    pub record: BaseRecord,
    /// All differences.
    pub changes: Changes,
    /// Changes that are shown and applied file by file.
    pub files: Vec<Change>,
    /// Changes that are shown and applied repository by repository.
    pub repositories: Vec<Repository>,
}

impl OpenRoot {
    /// Returns both sides of the root, for reading file contents.
    pub fn view(&self) -> View<'_> {
        View { layer: self.layer.as_ref(), host: &self.host, record: &self.record }
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target {
            number: self.number,
            host: &self.host,
            layer: self.layer.as_ref(),
            record: &self.record,
            free: free_space(self.host.path()),
        }
    }

    /// Returns true if a path is applied as a file, not as part of a repository.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        self.files.binary_search_by(|change| change.path.as_path().cmp(path)).is_ok()
    }
}

/// Returns the number of bytes that may be written to the filesystem of a directory; unlimited if the filesystem does
/// not report it.
pub(super) fn free_space(dir: &Path) -> u64 {
    sandbox_linux::file::free_space(dir).unwrap_or(u64::MAX)
}
