//! Doors: sandboxes that cannot reach the proxy's own sockets, as a container cannot, and hand their
//! listeners over at a socket that was made for each of them.
//!
//! A door outlives the connection, the container's restarts, and this process: it is written down, by
//! references to secrets and hashes of tokens alone, and opened again at the next start.

mod kept;
mod open;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::network::EgressPolicy;
use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::task::AbortHandle;

use crate::Proxy;
use crate::accept::Workers;
use crate::session::{Registration, RegistrationError, StoreError};

/// One door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// The socket where listeners are handed over. Nobody but the sandbox's first process sees its directory.
    pub path: PathBuf,
    /// The user that its first process has, as this machine counts.
    pub peer: u32,
    /// Where it may go by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<EgressPolicy>,
    /// The file that refusals are written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

/// A door as it is asked for: with the sessions that work behind it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDoor {
    /// The door.
    pub door: Door,
    /// Its sessions.
    #[serde(default)]
    pub sessions: Vec<Registration>,
}

impl NewDoor {
    /// The message that asks for it. It may have keys in it.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let sessions =
            self.sessions.iter().map(Registration::to_json).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({ "door": self.door, "sessions": sessions }))
    }
}

/// Why there is no door.
#[derive(Debug, Error)]
pub(crate) enum DoorError {
    #[error("a sandbox's id has 1 to 128 letters, digits, `-`, `_`, `.` or `:`")]
    Id,
    #[error("the sandbox `{0}` is attached already")]
    Taken(String),
    #[error("cannot listen at `{}`", .0.display())]
    Listen(PathBuf, #[source] std::io::Error),
    #[error(transparent)]
    Session(#[from] RegistrationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Hint for DoorError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Id => "use the id of the session".into(),
            Self::Taken(_) => "end that sandbox first".into(),
            Self::Listen(..) => "look at the owner and the mode of that directory".into(),
            Self::Session(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }
}

/// All doors of a proxy.
#[derive(Debug)]
pub(crate) struct Doors {
    proxy: Arc<Proxy>,
    workers: Arc<Workers>,
    file: PathBuf,
    open: Mutex<BTreeMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    door: Door,
    task: AbortHandle,
}

impl Doors {
    /// Opens those that were open when the last proxy ended. One that cannot be opened is told and
    /// forgotten; its sessions end as those of a sandbox do that does not come back.
    pub(crate) fn restore(
        proxy: Arc<Proxy>,
        workers: Arc<Workers>,
        file: PathBuf,
    ) -> Result<Arc<Self>, StoreError> {
        let kept = kept::read(&file)?;
        let doors = Arc::new(Self { proxy, workers, file, open: Mutex::default() });
        for (id, door) in kept {
            match doors.listen(&id, door) {
                Ok(()) => doors.proxy.registry.keep_bound(&id),
                Err(error) => (doors.proxy.say)(&sandbox_linux::error::chain(&error)),
            }
        }
        Ok(doors)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a door, or replaces the one of this sandbox.
    pub(crate) fn open(&self, id: &str, new: NewDoor) -> Result<(), DoorError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if !(1..=128).contains(&id.len()) || !id.bytes().all(plain) {
            return Err(DoorError::Id);
        }
        self.shut(id);
        for mut session in new.sessions {
            session.terms.sandbox_id = Some(id.to_owned());
            let registered = self.proxy.registry.register(session, true);
            if let Err(error) = registered {
                self.proxy.registry.revoke_bound(id);
                return Err(error.into());
            }
        }
        let opened = self.listen(id, new.door).and_then(|()| Ok(self.save()?));
        if opened.is_err() {
            self.shut(id);
        }
        opened
    }

    /// Closes a door and ends its sessions. Whether there was one.
    pub(crate) fn close(&self, id: &str) -> Result<bool, StoreError> {
        let was = self.shut(id);
        self.save()?;
        Ok(was)
    }

    /// What is open, without secrets.
    pub(crate) fn list(&self) -> Value {
        let open = self.lock();
        let listed =
            open.iter().map(|(id, open)| json!({ "sandbox_id": id, "path": open.door.path }));
        listed.collect()
    }

    fn listen(&self, id: &str, door: Door) -> Result<(), DoorError> {
        if !self.proxy.admit(id) {
            return Err(DoorError::Taken(id.to_owned()));
        }
        let listener = open::socket(&door.path).map_err(|error| {
            self.proxy.attached().remove(id);
            DoorError::Listen(door.path.clone(), error)
        })?;
        let (id, workers) = (id.to_owned(), self.workers.clone());
        let task = tokio::spawn(open::serve(listener, id.clone(), door.clone(), workers));
        self.lock().insert(id, Open { door, task: task.abort_handle() });
        Ok(())
    }

    fn shut(&self, id: &str) -> bool {
        let Some(open) = self.lock().remove(id) else { return false };
        open.task.abort();
        let _ = std::fs::remove_file(&open.door.path);
        self.proxy.registry.revoke_bound(id);
        self.proxy.attached().remove(id);
        true
    }

    fn save(&self) -> Result<(), StoreError> {
        let doors = self.lock().iter().map(|(id, open)| (id.clone(), open.door.clone())).collect();
        kept::write(&self.file, &doors)?;
        self.proxy.registry.save()
    }
}
