//! Bringing up a session.

use super::Service;
use super::lock::Lock;
use crate::backend::{Observed, Recorder};
use crate::error::{ControlError, cannot};
use crate::session::{NewSession, Session, SessionId, Settings, State, Wanted};

/// Result of `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Brought {
    /// It was down.
    Started,
    /// It was up with the same settings.
    WasUp,
    /// It was up with other settings, or only partly: it was taken down first. One line per changed setting.
    Replaced(Vec<String>),
}

/// Policy for a session that is up with other settings than the requested ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differing {
    /// Refuse, and list the differences.
    Refuse,
    /// Take it down and bring it up with the new settings.
    Recreate,
}

impl Service {
    /// Brings up the requested session. One that is up with the same settings is not touched. One that is down gets the
    /// new settings.
    pub fn up(
        &mut self,
        new: &NewSession,
        differing: Differing,
    ) -> Result<(Session, Brought), ControlError> {
        self.make()?;
        loop {
            let id = SessionId::generate().map_err(cannot("read", "/dev/urandom".as_ref()))?;
            let (session, _) = self.store.claim(new, id, sandbox_linux::clock::now())?;
            let _lock = Lock::take(&self.data_dir.lock(&session.id))?;
            // The previous holder of the lock may have removed it.
            if let Some(session) = self.store.get(&session.id)? {
                let brought = self.bring(session.clone(), new, differing)?;
                let session = self.store.get(&session.id)?.unwrap_or(session);
                return Ok((session, brought));
            }
        }
    }

    /// Takes down what exists of the session, unless it is up and `differing` refuses.
    fn clear(
        &self,
        session: &Session,
        new: &NewSession,
        differing: Differing,
    ) -> Result<Brought, ControlError> {
        if self.store.things(&session.id)?.is_empty() {
            return Ok(Brought::Started);
        }
        let Observed { state, agent, .. } = self.backend(session.backend)?.observe(session)?;
        // A starting session was interrupted, unless it has an agent that ended and is being
        // restarted.
        let is_whole = state != State::Starting || agent.is_some();
        let is_up = session.wanted == Wanted::Up
            && matches!(state, State::Running | State::Suspended | State::Starting);
        let differences = differences(session, new);
        match &differences {
            None if is_up && is_whole => return Ok(Brought::WasUp),
            Some(lines) if is_up && differing == Differing::Refuse => {
                let name = session.name.as_str().to_owned();
                return Err(ControlError::Differs { name, lines: lines.clone() });
            }
            _ => self.walk_back(session)?,
        }
        Ok(if is_up {
            Brought::Replaced(differences.unwrap_or_default())
        } else {
            Brought::Started
        })
    }

    fn bring(
        &self,
        mut session: Session,
        new: &NewSession,
        differing: Differing,
    ) -> Result<Brought, ControlError> {
        let brought = self.clear(&session, new, differing)?;
        if brought == Brought::WasUp {
            // The settings are equal, but the request may be worded differently.
            self.store.update_request(&session.id, &new.request)?;
        } else {
            self.store.replace_request(&session.id, new, &boot())?;
        }
        session = self.store.get(&session.id)?.unwrap_or(session);
        let mut record = Recorder::new(&self.store, &session);
        let backend = self.backend(session.backend)?;
        let made = backend
            .ensure(&session, &mut record)
            .and_then(|()| backend.bind(&session, &mut record));
        match made {
            Ok(()) => Ok(brought),
            Err(error) => {
                let back = self
                    .walk_back(&session)
                    .and_then(|()| self.store.want(&session.id, Wanted::Down));
                Err(error.and(back))
            }
        }
    }
}

/// Lists what a request would change about a session. Returns `None` if nothing.
fn differences(session: &Session, new: &NewSession) -> Option<Vec<String>> {
    if session.backend != new.backend {
        return Some(vec![format!("backend: {} → {}", session.backend, new.backend)]);
    }
    if session.policy == new.policy {
        return None;
    }
    match (Settings::recall(&session.request), Settings::recall(&new.request)) {
        (Some(old), Some(new)) => Some(old.differences(&new)).filter(|lines| !lines.is_empty()),
        // Records of earlier versions have no settings to compare.
        _ => Some(Vec::new()),
    }
}

/// Returns the boot id of the machine.
fn boot() -> String {
    let id = sandbox_linux::file::kernel_text("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}
