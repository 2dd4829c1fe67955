//! All sessions, found by the hash of their token.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::Serialize;

use super::ending::Ending;
use super::registration::Terms;
use super::store::{self, StoreError, Stored};
use super::{Counts, Registration, RegistrationError, Session, State};
use crate::credential::{Secret, Source};
use crate::token::TokenHash;

/// The sessions of one proxy.
#[derive(Debug)]
pub struct Registry {
    sessions: RwLock<HashMap<TokenHash, Entry>>,
    source: Arc<dyn Source>,
    /// Where they are kept, so that a restart loses none.
    file: PathBuf,
}

#[derive(Debug, Clone)]
struct Entry {
    session: Arc<Session>,
    terms: Terms,
    /// Its sandbox was there when the proxy ended, and has not come back yet.
    orphaned: bool,
}

/// A session as it is listed: nothing in it is a secret.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// A short name, from which the token cannot be had.
    pub id: String,
    /// The provider.
    pub provider: &'static str,
    /// Whose session it is.
    pub sandbox_id: Option<String>,
    /// The server.
    pub upstream_url: String,
    /// Whether the key has to be handed over again.
    pub key_missing: bool,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The tokens it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// What it has used.
    pub usage: Counts,
}

impl Registry {
    /// The sessions that are kept in a file.
    pub fn open(file: PathBuf, source: Arc<dyn Source>) -> Result<Self, StoreError> {
        let mut sessions = HashMap::new();
        for stored in store::read(&file)? {
            let state = Arc::new(State { counts: stored.usage.into(), ..State::default() });
            // What a newer version wrote and this one does not understand ends here, and is said to the client.
            let made = Session::new(
                stored.token_sha256,
                &stored.terms,
                None,
                stored.bound,
                state,
                &source,
            );
            if let Ok(mut session) = made {
                session.ending = Ending::of(&stored.terms.limits, stored.ending);
                let entry = Entry {
                    session: Arc::new(session),
                    terms: stored.terms,
                    orphaned: stored.bound,
                };
                sessions.insert(stored.token_sha256, entry);
            }
        }
        Ok(Self { sessions: RwLock::new(sessions), source, file })
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<TokenHash, Entry>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<TokenHash, Entry>> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a token, in either spelling.
    pub fn find(&self, token: &str) -> Option<Arc<Session>> {
        self.read().get(&TokenHash::of(token)).map(|entry| entry.session.clone())
    }

    /// Adds a session, or replaces the one of this token; what that one has used still counts.
    pub fn register(
        &self,
        registration: Registration,
        bound: bool,
    ) -> Result<Arc<Session>, RegistrationError> {
        let Registration { token, api_key, terms } = registration;
        let hash = token.hash();
        let known = self.read().get(&hash).cloned();
        let state = known.map_or_else(Arc::default, |known| known.session.state.clone());
        let session = Session::new(hash, &terms, api_key, bound, state, &self.source)?;
        if session.key.is_missing() {
            return Err(RegistrationError::Key);
        }
        let session = Arc::new(session);
        self.write().insert(hash, Entry { session: session.clone(), terms, orphaned: false });
        Ok(session)
    }

    /// Ends the session of a token, in either spelling. Returns whether there was one.
    pub fn revoke(&self, token: &str) -> bool {
        self.write().remove(&TokenHash::of(token)).is_some()
    }

    /// Ends all sessions of a sandbox. Returns how many there were.
    pub fn revoke_sandbox(&self, sandbox: &str) -> usize {
        self.remove_where(|entry| entry.session.sandbox.as_deref() == Some(sandbox))
    }

    /// Ends the sessions that came with a sandbox's listener.
    pub(crate) fn revoke_bound(&self, sandbox: &str) -> usize {
        self.remove_where(|entry| {
            entry.session.bound && entry.session.sandbox.as_deref() == Some(sandbox)
        })
    }

    /// Keeps the sessions that came with a sandbox's listener although it has not come back yet.
    pub(crate) fn keep_bound(&self, sandbox: &str) {
        let mut sessions = self.write();
        let of_it = |entry: &&mut Entry| entry.session.sandbox.as_deref() == Some(sandbox);
        sessions.values_mut().filter(of_it).for_each(|entry| entry.orphaned = false);
    }

    /// Ends sessions whose time is over.
    pub(crate) fn revoke_expired(&self) -> usize {
        self.remove_where(|entry| entry.session.is_over())
    }

    /// Ends sessions whose sandbox did not come back after a restart.
    pub(crate) fn revoke_orphaned(&self) -> usize {
        self.remove_where(|entry| entry.orphaned)
    }

    fn remove_where(&self, gone: impl Fn(&Entry) -> bool) -> usize {
        let mut sessions = self.write();
        let before = sessions.len();
        sessions.retain(|_, entry| !gone(entry));
        before - sessions.len()
    }

    /// Puts another key in the place of the one that a session was registered with.
    pub fn rotate(&self, token: &str, key: Secret) -> Result<bool, RegistrationError> {
        let Some(session) = self.find(token) else { return Ok(false) };
        session.key.replace(key, &session).map(|()| true)
    }

    /// Makes every session ask for its key again that does not hold it.
    pub fn forget_keys(&self) {
        self.read().values().for_each(|entry| entry.session.key_refused());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// All of them, without secrets.
    pub fn list(&self) -> Vec<Listed> {
        let sorted: BTreeMap<TokenHash, Arc<Session>> =
            self.read().iter().map(|(hash, entry)| (*hash, entry.session.clone())).collect();
        let listed = |session: Arc<Session>| Listed {
            id: session.id.clone(),
            provider: session.provider.name,
            sandbox_id: session.sandbox.clone(),
            upstream_url: session.target.url(),
            key_missing: session.key.is_missing(),
            expires_at: session.limits.expires_at,
            token_budget: session.limits.token_budget,
            usage: session.counts(),
        };
        sorted.into_values().map(listed).collect()
    }

    /// Writes them to their file: hashes, terms and counts. Keys and tokens are not in it.
    pub fn save(&self) -> Result<(), StoreError> {
        let stored = |(hash, entry): (&TokenHash, &Entry)| Stored {
            token_sha256: *hash,
            bound: entry.session.bound,
            terms: entry.terms.clone(),
            usage: entry.session.counts(),
            ending: entry.session.ending.clone(),
        };
        let mut all: Vec<Stored> = self.read().iter().map(stored).collect();
        all.sort_by_key(|stored| stored.token_sha256);
        store::write(&self.file, &all)
    }
}
