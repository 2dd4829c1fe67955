//! Operations on sessions: decided here, recorded in the store, carried out by a backend.

mod lock;
mod decide;
mod up;
mod down;
mod log;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

use sandbox_linux::process::Used;
use sandbox_linux::pty::Size;

use crate::backend::{Authorized, Backend, Connection, Exec, Listen, Observed};
use crate::data_dir::DataDir;
use crate::error::ControlError;
use crate::session::{
    BackendKind, Matching, Name, NewSession, Session, State, Wanted, choose, label,
};
use crate::store::{Store, Thing, existing, name_of};
pub use decide::{Decision, absolute, recorded};
pub use up::{Brought, Differing};

/// Sessions of a user.
pub struct Service {
    data_dir: DataDir,
    store: Store,
    backends: Vec<Box<dyn Backend>>,
    /// True when the database does not exist, and `store` is an empty one in memory.
    is_missing: bool,
}

/// Session and its observed state.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Record of the session.
    pub session: Session,
    /// Observed state.
    pub observed: Observed,
}

impl Service {
    /// Opens the database, and creates it if needed.
    pub fn open(data_dir: DataDir, backends: Vec<Box<dyn Backend>>) -> Result<Self, ControlError> {
        data_dir.make()?;
        let store = Store::open(&data_dir.database())?;
        Ok(Self { data_dir, store, backends, is_missing: false })
    }

    /// Opens the database, without creating it. If it does not exist, there are no sessions.
    pub fn open_existing(
        data_dir: DataDir,
        backends: Vec<Box<dyn Backend>>,
    ) -> Result<Self, ControlError> {
        if data_dir.is_used() {
            return Self::open(data_dir, backends);
        }
        let store = Store::empty(&data_dir.database())?;
        Ok(Self { data_dir, store, backends, is_missing: true })
    }

    /// Creates the database if [`Self::open_existing`] did not find one.
    fn make(&mut self) -> Result<(), ControlError> {
        if self.is_missing {
            self.data_dir.make()?;
            self.store = Store::open(&self.data_dir.database())?;
            self.is_missing = false;
        }
        Ok(())
    }

    /// Returns the SSH key of a session that is authorized on the host, if it has one.
    pub fn authorized(&self, session: &Session) -> Option<Authorized> {
        self.backend(session.backend).ok()?.authorized(session)
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> &DataDir {
        &self.data_dir
    }

    /// Returns warnings of operations that succeeded. Each is returned once.
    pub fn warnings(&self) -> Vec<String> {
        self.backends.iter().flat_map(|backend| backend.warnings()).collect()
    }

    fn backend(&self, kind: BackendKind) -> Result<&dyn Backend, ControlError> {
        let found = self.backends.iter().find(|backend| backend.kind() == kind);
        found.map(AsRef::as_ref).ok_or(ControlError::NoBackend(kind.as_str()))
    }

    /// Returns all sessions, the oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>, ControlError> {
        self.store.list()
    }

    /// Returns true when the session exists already, or fewer than `most` sessions exist.
    pub(crate) fn is_within_limit(
        &self,
        new: &NewSession,
        most: usize,
    ) -> Result<bool, ControlError> {
        let all = self.store.list()?;
        Ok(all.len() < most || existing(new.name.as_ref(), &new.project, &all)?.is_some())
    }

    /// Returns the session that a request with this name and project refers to, if it exists. Without a name it is the
    /// project's unnamed session.
    pub fn existing(
        &self,
        name: Option<&Name>,
        project: &Path,
    ) -> Result<Option<Session>, ControlError> {
        existing(name, project, &self.store.list()?)
    }

    /// Returns the name of the session that a request refers to. If the session does not exist yet,
    /// that is the name it would get.
    pub(crate) fn name_of(
        &self,
        name: Option<&Name>,
        project: &Path,
    ) -> Result<Name, ControlError> {
        name_of(name, project, &self.store.list()?)
    }

    /// Finds a session by name, id or prefix.
    pub fn find(&self, word: &str, matching: Matching) -> Result<Session, ControlError> {
        choose(&self.store.list()?, word, matching)
    }

    /// Returns the only session of a directory, or of the nearest one above it that has sessions.
    pub fn here(&self, directory: &Path) -> Result<Session, ControlError> {
        let mut all = self.store.list()?;
        all.retain(|session| directory.starts_with(&session.project));
        let depth = |session: &Session| session.project.components().count();
        let nearest = all.iter().map(depth).max();
        all.retain(|session| Some(depth(session)) == nearest);
        match &all[..] {
            [] => Err(ControlError::NoneHere(directory.to_path_buf())),
            [only] => Ok(only.clone()),
            several => Err(ControlError::SeveralHere {
                directory: several[0].project.clone(),
                matches: several.iter().map(label).collect(),
            }),
        }
    }

    /// Returns the observed state of a session.
    pub fn observe(&self, session: &Session) -> Result<Observed, ControlError> {
        let has_things = || Ok(!self.store.things(&session.id)?.is_empty());
        match self.known(session, has_things)? {
            Some(known) => Ok(known),
            None => Ok(self.backend(session.backend)?.observe(session)?),
        }
    }

    /// Returns the resources of a session in order of creation.
    pub fn things(&self, session: &Session) -> Result<Vec<Thing>, ControlError> {
        self.store.things(&session.id)
    }

    /// Returns all sessions with their observed states.
    pub fn list(&self) -> Result<Vec<Seen>, ControlError> {
        let sessions = self.store.list()?;
        let with_things = self.store.with_things()?;
        let mut seen = BTreeMap::new();
        for backend in &self.backends {
            let mut asked = Vec::new();
            for session in sessions.iter().filter(|session| session.backend == backend.kind()) {
                match self.known(session, || Ok(with_things.contains(&session.id)))? {
                    Some(known) => drop(seen.insert(session.id.clone(), known)),
                    None => asked.push(session),
                }
            }
            if asked.is_empty() {
                continue;
            }
            let told = backend.observe_all(&asked)?;
            seen.extend(asked.iter().map(|session| session.id.clone()).zip(told));
        }
        let observed = |session: Session| match seen.remove(&session.id) {
            Some(observed) => Ok(Seen { session, observed }),
            None => Err(ControlError::NoBackend(session.backend.as_str())),
        };
        sessions.into_iter().map(observed).collect()
    }

    /// Returns the state of a session if it is known without asking its backend.
    fn known(
        &self,
        session: &Session,
        has_things: impl FnOnce() -> Result<bool, ControlError>,
    ) -> Result<Option<Observed>, ControlError> {
        if session.wanted == Wanted::Down && !has_things()? {
            return Ok(Some(Observed::only(State::Stopped)));
        }
        let busy = lock::is_held(&self.data_dir.lock(&session.id));
        Ok(busy.then(|| Observed::only(State::Starting)))
    }

    /// Starts a command in a session that is up.
    pub fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, ControlError> {
        if session.wanted == Wanted::Down {
            return Err(ControlError::NotUp(session.name.as_str().to_owned()));
        }
        Ok(self.backend(session.backend)?.connect(session, exec)?)
    }

    /// Returns the current usage of a session: zero when it is down, `None` when it is unknown.
    pub fn used(&self, session: &Session) -> Result<Option<Used>, ControlError> {
        match self.observe(session)?.state {
            State::Running | State::Suspended => {
                Ok(self.backend(session.backend)?.used(session)?)
            }
            _ => Ok(Some(Used::default())),
        }
    }

    /// Pauses a session until the returned guard is dropped or this process ends.
    pub fn pause(&self, session: &Session) -> Result<Box<dyn Any>, ControlError> {
        Ok(self.backend(session.backend)?.pause(session)?)
    }

    /// Attaches to the terminal of a session's agent.
    pub fn attach(&self, session: &Session, size: Size) -> Result<Connection, ControlError> {
        if session.wanted == Wanted::Down {
            return Err(ControlError::NotUp(session.name.as_str().to_owned()));
        }
        Ok(self.backend(session.backend)?.attach(session, size)?)
    }

    /// Returns true when a session's backend stores its log while it is up.
    pub(crate) fn backend_keeps_log(&self, session: &Session) -> bool {
        self.backend(session.backend).is_ok_and(|backend| backend.capabilities().logs)
    }

    /// Passes on the log that a session's backend stores, until `each` returns false. Returns false when the log is the
    /// session's own file.
    pub fn logs(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, ControlError> {
        Ok(self.backend(session.backend)?.logs(session, how, each)?)
    }
}
