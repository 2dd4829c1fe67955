//! Taking down and removing a session.

use super::Service;
use super::lock::{Lock, is_held};
use crate::backend::{RecordLookup, Stray};
use crate::error::{ControlError, cannot};
use crate::session::{Session, SessionId, Wanted};
use crate::store::ThingKind;

impl Service {
    /// Takes down a session: removes its resources in reverse order. Keeps its log and its changes.
    /// Returns false if there was nothing to do.
    pub fn down(&self, session: &Session) -> Result<bool, ControlError> {
        self.take_down(session, Self::walk_back)
    }

    /// Takes down a session that is removed next, without keeping its log.
    pub fn end(&self, session: &Session) -> Result<bool, ControlError> {
        self.take_down(session, Self::undo)
    }

    fn take_down(
        &self,
        session: &Session,
        undo: fn(&Self, &Session) -> Result<(), ControlError>,
    ) -> Result<bool, ControlError> {
        let _lock = Lock::take(&self.data_dir.lock(&session.id))?;
        let Some(session) = self.store.get(&session.id)? else { return Ok(false) };
        let things = self.store.things(&session.id)?;
        let idle = things.is_empty() && session.wanted == Wanted::Down;
        // First of all, so that observers do not report the session as killed.
        self.store.want(&session.id, Wanted::Down)?;
        undo(self, &session)?;
        Ok(!idle)
    }

    /// Takes down a session and removes its record and its log.
    pub fn remove(&self, session: &Session) -> Result<(), ControlError> {
        let path = self.data_dir.lock(&session.id);
        let lock = Lock::take(&path)?;
        if let Some(session) = self.store.get(&session.id)? {
            self.store.want(&session.id, Wanted::Down)?;
            self.undo(&session)?;
            self.backend(session.backend)?.forget(&session)?;
            for log in [self.data_dir.log(&session.id), self.data_dir.old_log(&session.id)] {
                match std::fs::remove_file(&log) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(cannot("remove", &log)(error));
                    }
                    _ => {}
                }
            }
            self.store.forget(&session.id)?;
        }
        Lock::remove(lock, &path)
    }

    /// Finds resources that are labelled as ours and belong to no recorded session.
    pub fn strays(&self) -> Result<Vec<Stray>, ControlError> {
        let mut strays = Vec::new();
        for backend in &self.backends {
            strays.extend(backend.strays(self)?);
        }
        Ok(strays)
    }

    /// Removes a stray resource. If its session is recorded, the session's lock is held, and a resource that was
    /// created again meanwhile is kept.
    pub(crate) fn remove_stray(&self, stray: &Stray) -> Result<(), ControlError> {
        let backend = self.backend(stray.backend)?;
        let mut lock = None;
        if let Some(id) = SessionId::parse(&stray.session)
            && self.store.get(&id)?.is_some()
        {
            lock = Some(Lock::take(&self.data_dir.lock(&id))?);
            let Some((kind, identity)) = &stray.thing else { return Ok(()) };
            if self.is_on_record(&id, *kind, identity)? {
                return Ok(());
            }
        }
        backend.remove_stray(stray)?;
        drop(lock);
        Ok(())
    }

    fn is_on_record(
        &self,
        id: &SessionId,
        kind: ThingKind,
        identity: &str,
    ) -> Result<bool, ControlError> {
        let things = self.store.things(id)?;
        Ok(things.iter().any(|thing| thing.kind == kind && thing.identity == identity))
    }

    /// Saves the log of the session's programs, then removes its resources.
    pub(super) fn walk_back(&self, session: &Session) -> Result<(), ControlError> {
        if !self.store.things(&session.id)?.is_empty() {
            self.backend(session.backend)?.keep_log(session);
        }
        self.undo(session)
    }

    /// Removes the recorded resources in reverse order. All are tried and every error is reported. What could not be
    /// removed stays recorded for the next command. Directories are kept after an error, because a container that could
    /// not be removed may still use them.
    fn undo(&self, session: &Session) -> Result<(), ControlError> {
        let backend = self.backend(session.backend)?;
        let mut first: Result<(), ControlError> = Ok(());
        for thing in self.store.things(&session.id)?.iter().rev() {
            if first.is_err() && thing.kind == ThingKind::Directory {
                continue;
            }
            let undone = backend.remove(session, thing).map_err(ControlError::from);
            let undone = undone.and_then(|()| self.store.gone(&session.id, thing));
            first = match first {
                Ok(()) => undone,
                Err(first) => Err(first.and(undone)),
            };
        }
        first.and_then(|()| Ok(backend.sweep(session)?))
    }
}

impl RecordLookup for Service {
    fn session(&self, id: &str) -> bool {
        let on_record = SessionId::parse(id).map(|id| self.store.get(&id));
        // An unreadable database proves nothing, so the resource is kept.
        on_record.is_some_and(|found| !matches!(found, Ok(None)))
    }

    fn thing(&self, id: &str, kind: ThingKind, identity: &str) -> bool {
        if !self.session(id) {
            return false;
        }
        SessionId::parse(id).is_some_and(|id| {
            is_held(&self.data_dir.lock(&id))
                || self.is_on_record(&id, kind, identity).unwrap_or(true)
        })
    }
}
