//! Rendezvous sockets: a container, which cannot reach the proxy's own sockets, passes its listening sockets to the
//! proxy over a Unix socket of its session (`SCM_RIGHTS`).
//!
//! A rendezvous socket outlives the connection, restarts of the container, and the proxy. It is saved with references
//! to secrets and hashes of tokens, and opened again at the next start. The file and the API call it a `door`.

mod saved;
mod attend;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_policy::network::EgressPolicy;
use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::task::AbortHandle;

use crate::Proxy;
use crate::accept::Workers;
use crate::session::{Registration, RegistrationError, StoreError};

/// The rendezvous socket of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendezvous {
    /// Path of the socket. Inside the sandbox, only the first process sees its directory.
    pub path: PathBuf,
    /// Uid of the sandbox's first process on the host.
    pub peer: u32,
    /// Egress by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<EgressPolicy>,
    /// Log file for refusals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

/// Request to open a rendezvous socket, with the sessions that it serves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRendezvous {
    /// The socket.
    #[serde(rename = "door")]
    pub rendezvous: Rendezvous,
    /// Sessions of the sandbox.
    #[serde(default)]
    pub sessions: Vec<Registration>,
}

impl NewRendezvous {
    /// Returns the request as JSON. It may contain keys.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let sessions =
            self.sessions.iter().map(Registration::to_json).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({ "door": self.rendezvous, "sessions": sessions }))
    }
}

/// Failure to open a rendezvous socket.
#[derive(Debug, Error)]
pub(crate) enum RendezvousError {
    #[error("invalid sandbox ID: it must have 1 to 128 letters, digits, `-`, `_`, `.` or `:`")]
    Id,
    #[error("sandbox `{0}` is already attached")]
    Taken(String),
    #[error("cannot listen at `{}`", .0.display())]
    Listen(PathBuf, #[source] std::io::Error),
    #[error(transparent)]
    Session(#[from] RegistrationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Hint for RendezvousError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Id => "use the session's ID".into(),
            Self::Taken(_) => "end that sandbox first".into(),
            Self::Listen(..) => "check the owner and mode of the directory".into(),
            Self::Session(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }
}

/// All rendezvous sockets of a proxy.
#[derive(Debug)]
pub(crate) struct RendezvousSockets {
    proxy: Arc<Proxy>,
    workers: Arc<Workers>,
    file: PathBuf,
    open: Mutex<BTreeMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    rendezvous: Rendezvous,
    task: AbortHandle,
}

impl RendezvousSockets {
    /// Opens the sockets that the last proxy saved. A failure is printed, and the sandbox's sessions end like those of
    /// one that does not attach again.
    pub(crate) fn restore(
        proxy: Arc<Proxy>,
        workers: Arc<Workers>,
        file: PathBuf,
    ) -> Result<Arc<Self>, StoreError> {
        let saved = saved::read(&file)?;
        let sockets = Arc::new(Self { proxy, workers, file, open: Mutex::default() });
        for (id, rendezvous) in saved {
            match sockets.listen(&id, rendezvous) {
                Ok(()) => sockets.proxy.registry.keep_bound(&id),
                Err(error) => (sockets.proxy.say)(&sandbox_linux::error::chain(&error)),
            }
        }
        Ok(sockets)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a rendezvous socket, or replaces the one of this sandbox.
    pub(crate) fn open(&self, id: &str, new: NewRendezvous) -> Result<(), RendezvousError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if !(1..=128).contains(&id.len()) || !id.bytes().all(plain) {
            return Err(RendezvousError::Id);
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
        let opened = self.listen(id, new.rendezvous).and_then(|()| Ok(self.save()?));
        if opened.is_err() {
            self.shut(id);
        }
        opened
    }

    /// Closes a rendezvous socket and ends its sessions. Returns true if there was one.
    pub(crate) fn close(&self, id: &str) -> Result<bool, StoreError> {
        let was = self.shut(id);
        self.save()?;
        Ok(was)
    }

    /// Returns the open sockets as JSON, without secrets.
    pub(crate) fn list(&self) -> Value {
        let open = self.lock();
        let listed =
            open.iter().map(|(id, open)| json!({ "sandbox_id": id, "path": open.rendezvous.path }));
        listed.collect()
    }

    fn listen(&self, id: &str, rendezvous: Rendezvous) -> Result<(), RendezvousError> {
        if !self.proxy.admit(id) {
            return Err(RendezvousError::Taken(id.to_owned()));
        }
        let listener = attend::socket(&rendezvous.path).map_err(|error| {
            self.proxy.attached().remove(id);
            RendezvousError::Listen(rendezvous.path.clone(), error)
        })?;
        let (id, workers) = (id.to_owned(), self.workers.clone());
        let task = tokio::spawn(attend::serve(listener, id.clone(), rendezvous.clone(), workers));
        self.lock().insert(id, Open { rendezvous, task: task.abort_handle() });
        Ok(())
    }

    fn shut(&self, id: &str) -> bool {
        let Some(open) = self.lock().remove(id) else { return false };
        open.task.abort();
        let _ = std::fs::remove_file(&open.rendezvous.path);
        self.proxy.registry.revoke_bound(id);
        self.proxy.attached().remove(id);
        true
    }

    fn save(&self) -> Result<(), StoreError> {
        let sockets =
            self.lock().iter().map(|(id, open)| (id.clone(), open.rendezvous.clone())).collect();
        saved::write(&self.file, &sockets)?;
        self.proxy.registry.save()
    }
}
