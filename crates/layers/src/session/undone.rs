//! Recovery from killed applies and undos, in the record of the base and in the project.
//!
//! Release 0.1.0 marked an undo as done before it wrote the record of the base. A kill in between hid all changes of
//! the session: the layer looked applied, and there was nothing left to undo.

use super::base::BaseRecord;
use super::error::{SessionError, cannot};
use super::lock::Lock;
use super::opened::LayerSession;
use crate::apply::{ApplyError, Journal, Status, Target, recover_base, tidy_root};
use crate::host::{HostTree, is_absent};

impl LayerSession {
    /// Restores the base of undone applies in a root's record. Returns true when the record changed.
    pub(super) fn recover(
        &self,
        root: usize,
        record: &mut BaseRecord,
    ) -> Result<bool, SessionError> {
        let applied = self.applied_dir();
        if !Journal::any_without_base(&applied) {
            return Ok(false);
        }
        let base = self.base_dir(root)?;
        let host = match HostTree::open(base) {
            Err(error) if is_absent(&error) => return Ok(false),
            opened => opened.map_err(cannot("open", base))?,
        };
        // Commands that need the journal report an unreadable one.
        let Ok(journals) = Journal::list(&applied) else { return Ok(false) };
        recover_base(&journals, root, &host, record).map_err(not_recovered)
    }

    /// Removes the files that a killed apply or undo prepared in the project. It cannot be completed afterwards.
    pub(super) fn tidy(&self) -> Result<(), SessionError> {
        let Ok(Some(journal)) = Journal::interrupted(&self.applied_dir()) else { return Ok(()) };
        for root in 0..self.record().roots.len() {
            let base = self.base_dir(root)?;
            let host = match HostTree::open(base) {
                Err(error) if is_absent(&error) => continue,
                opened => opened.map_err(cannot("open", base))?,
            };
            let (layer, record) = (self.layer(root)?, self.base_record(root)?);
            let target = Target {
                number: root,
                host: &host,
                layer: layer.as_ref(),
                record: &record,
                free: 0, // nothing is copied
            };
            tidy_root(&journal, &target).map_err(not_recovered)?;
        }
        Ok(())
    }

    /// Writes the corrections of [`Self::recover`] and marks them as done.
    pub(super) fn recover_all(&self, _lock: &Lock) -> Result<(), SessionError> {
        let applied = self.applied_dir();
        if !Journal::any_without_base(&applied) {
            return Ok(());
        }
        let roots = self.record().roots.len();
        let reachable =
            (0..roots).all(|root| self.base_dir(root).is_ok_and(std::path::Path::is_dir));
        let Ok(journals) = Journal::list(&applied) else { return Ok(()) };
        for root in 0..roots {
            let mut record = self.recorded(root)?;
            if self.recover(root, &mut record)? {
                record.write(root)?;
            }
        }
        let undone = journals.iter().filter(|journal| journal.status == Status::Undone);
        for journal in undone.filter(|journal| reachable && !journal.is_base_back()) {
            journal.base_is_back(0).map_err(not_recovered)?;
        }
        Ok(())
    }
}

fn not_recovered(error: ApplyError) -> SessionError {
    SessionError::Applied(Box::new(error))
}
