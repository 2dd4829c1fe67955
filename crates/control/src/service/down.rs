//! Taking a session down, and away.

use super::Service;
use super::lock::Lock;
use crate::backend::Stray;
use crate::error::{ControlError, cannot};
use crate::session::{Session, SessionId, Wanted};
use crate::store::ThingKind;

impl Service {
    /// Takes a session down: everything that was made for it goes, the last thing first. Its log
    /// and its changes stay. Whether there was anything to do.
    pub fn down(&self, session: &Session) -> Result<bool, ControlError> {
        let _lock = Lock::take(&self.place.lock(&session.id))?;
        let Some(session) = self.store.get(&session.id)? else { return Ok(false) };
        let things = self.store.things(&session.id)?;
        let idle = things.is_empty() && session.wanted == Wanted::Down;
        // Before anything else: whoever looks from now on does not take this for an accident.
        self.store.want(&session.id, Wanted::Down)?;
        self.walk_back(&session)?;
        Ok(!idle)
    }

    /// Takes a session down and forgets it, with its log.
    pub fn remove(&self, session: &Session) -> Result<(), ControlError> {
        let path = self.place.lock(&session.id);
        let lock = Lock::take(&path)?;
        if let Some(session) = self.store.get(&session.id)? {
            self.store.want(&session.id, Wanted::Down)?;
            self.walk_back(&session)?;
            self.backend(session.backend)?.forget(&session)?;
            for log in [self.place.log(&session.id), self.place.old_log(&session.id)] {
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

    /// What carries this program's mark and belongs to no session on record.
    pub fn strays(&self) -> Result<Vec<Stray>, ControlError> {
        let is_known = |id: &str| {
            let on_record = SessionId::parse(id).map(|id| self.store.get(&id));
            // What cannot be told stays.
            on_record.is_some_and(|found| !matches!(found, Ok(None)))
        };
        let mut strays = Vec::new();
        for backend in &self.backends {
            strays.extend(backend.strays(&is_known)?);
        }
        Ok(strays)
    }

    /// Takes one of those away.
    pub fn remove_stray(&self, stray: &Stray) -> Result<(), ControlError> {
        Ok(self.backend(stray.backend)?.remove_stray(stray)?)
    }

    /// Undoes what is on record, the last thing first. All of it is tried; every failure is told, and
    /// what could not be undone stays on record for the next command. So does a directory, as long as
    /// something that stands on it may be there: a container whose engine is gone.
    pub(super) fn walk_back(&self, session: &Session) -> Result<(), ControlError> {
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
        first
    }
}
