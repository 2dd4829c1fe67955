//! Bringing a session up.

use super::Service;
use super::lock::Lock;
use crate::backend::Recorder;
use crate::error::{ControlError, cannot};
use crate::session::{NewSession, Session, SessionId, State, Wanted};

/// What `up` had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// It was not up.
    Started,
    /// It was up already, as it was asked for.
    WasUp,
    /// It was up under another policy, or only half: it was taken down first.
    Replaced,
}

impl Service {
    /// Brings the session up that is asked for. What there is of it already is used if it was made
    /// by the same policy, and taken away otherwise.
    pub fn up(&mut self, new: &NewSession) -> Result<(Session, Brought), ControlError> {
        loop {
            let id = SessionId::generate().map_err(cannot("read", "/dev/urandom".as_ref()))?;
            let (session, _) = self.store.claim(new, id, now())?;
            let _lock = Lock::take(&self.place.lock(&session.id))?;
            // Whoever held the lock may have removed it.
            if let Some(session) = self.store.get(&session.id)? {
                let brought = self.bring(session.clone(), new)?;
                let session = self.store.get(&session.id)?.unwrap_or(session);
                return Ok((session, brought));
            }
        }
    }

    fn bring(&self, mut session: Session, new: &NewSession) -> Result<Brought, ControlError> {
        let things = self.store.things(&session.id)?;
        let mut brought = Brought::Started;
        if !things.is_empty() {
            let observed = self.backend(session.backend)?.observe(&session)?;
            let same = session.policy == new.policy && session.backend == new.backend;
            if observed.state == State::Running && same && session.wanted == Wanted::Up {
                brought = Brought::WasUp;
            } else {
                self.walk_back(&session)?;
                let was_up = matches!(observed.state, State::Running | State::Suspended);
                brought = if was_up { Brought::Replaced } else { Brought::Started };
            }
        }
        if brought != Brought::WasUp {
            self.store.renew(&session.id, new, &boot())?;
            session = self.store.get(&session.id)?.unwrap_or(session);
        }
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

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

/// Which boot of the machine this is.
fn boot() -> String {
    let id = sandbox_linux::file::kernel_text("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}
