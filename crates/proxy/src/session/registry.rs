//! Registry of sessions by token hash.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::Serialize;

use super::ending::Ending;
use super::registration::Terms;
use super::store::{self, StoreError, Stored};
use super::{Counts, ProxySession, Registration, RegistrationError, State};
use crate::credential::{Secret, Source};
use crate::token::TokenHash;

/// Sessions of one proxy.
#[derive(Debug)]
pub struct Registry {
    sessions: RwLock<HashMap<TokenHash, Entry>>,
    source: Arc<dyn Source>,
    /// File of saved sessions.
    file: PathBuf,
}

#[derive(Debug, Clone)]
struct Entry {
    session: Arc<ProxySession>,
    terms: Terms,
    /// True when its sandbox was attached before a restart of the proxy and has not attached again.
    orphaned: bool,
}

/// Entry of a listing, without secrets.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// Short ID. It does not reveal the token.
    pub id: String,
    /// The provider.
    pub provider: &'static str,
    /// ID of the sandbox.
    pub sandbox_id: Option<String>,
    /// URL of the server.
    pub upstream_url: String,
    /// True when the key has to be registered again.
    pub key_missing: bool,
    /// Expiry in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Limit of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Usage.
    pub usage: Counts,
}

impl Registry {
    /// Loads the sessions saved in a file.
    pub fn open(file: PathBuf, source: Arc<dyn Source>) -> Result<Self, StoreError> {
        let mut sessions = HashMap::new();
        for stored in store::read(&file)? {
            let state = Arc::new(State { counts: stored.usage.into(), ..State::default() });
            // Sessions that this version does not understand are dropped. Their clients get `token_unknown`.
            let made = ProxySession::new(
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

    /// Returns the session of a token, with or without the `session-` prefix.
    pub fn find(&self, token: &str) -> Option<Arc<ProxySession>> {
        self.read().get(&TokenHash::of(token)).map(|entry| entry.session.clone())
    }

    /// Adds a session. A session with the same token is replaced, and its usage is kept.
    pub fn register(
        &self,
        registration: Registration,
        bound: bool,
    ) -> Result<Arc<ProxySession>, RegistrationError> {
        let Registration { token, api_key, terms } = registration;
        let hash = token.hash();
        let known = self.read().get(&hash).cloned();
        let state = known.map_or_else(Arc::default, |known| known.session.state.clone());
        let session = ProxySession::new(hash, &terms, api_key, bound, state, &self.source)?;
        if session.key.is_missing() {
            return Err(RegistrationError::Key);
        }
        let session = Arc::new(session);
        self.write().insert(hash, Entry { session: session.clone(), terms, orphaned: false });
        Ok(session)
    }

    /// Ends the session of a token, with or without the prefix. Returns true if there was one.
    pub fn revoke(&self, token: &str) -> bool {
        self.write().remove(&TokenHash::of(token)).is_some()
    }

    /// Ends all sessions of a sandbox. Returns their number.
    pub(crate) fn revoke_sandbox(&self, sandbox: &str) -> usize {
        self.remove_where(|entry| entry.session.sandbox.as_deref() == Some(sandbox))
    }

    /// Ends the sessions that came with a sandbox's listener.
    pub(crate) fn revoke_bound(&self, sandbox: &str) -> usize {
        self.remove_where(|entry| {
            entry.session.bound && entry.session.sandbox.as_deref() == Some(sandbox)
        })
    }

    /// Marks a sandbox's sessions as not orphaned, although it has not attached again yet.
    pub(crate) fn keep_bound(&self, sandbox: &str) {
        let mut sessions = self.write();
        let of_sandbox = |entry: &&mut Entry| entry.session.sandbox.as_deref() == Some(sandbox);
        sessions.values_mut().filter(of_sandbox).for_each(|entry| entry.orphaned = false);
    }

    /// Ends expired sessions.
    pub(crate) fn revoke_expired(&self) -> usize {
        self.remove_where(|entry| entry.session.is_over())
    }

    /// Ends sessions whose sandbox did not attach again after a restart.
    pub(crate) fn revoke_orphaned(&self) -> usize {
        self.remove_where(|entry| entry.orphaned)
    }

    fn remove_where(&self, gone: impl Fn(&Entry) -> bool) -> usize {
        let mut sessions = self.write();
        let before = sessions.len();
        sessions.retain(|_, entry| !gone(entry));
        before - sessions.len()
    }

    /// Replaces a session's registered key. Returns false if there is no session.
    pub fn rotate(&self, token: &str, key: Secret) -> Result<bool, RegistrationError> {
        let Some(session) = self.find(token) else { return Ok(false) };
        session.key.replace(key, &session).map(|()| true)
    }

    /// Clears all keys that were resolved from a source.
    pub fn forget_keys(&self) {
        self.read().values().for_each(|entry| entry.session.key_refused());
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Returns true when there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Lists the sessions, without secrets.
    pub fn list(&self) -> Vec<Listed> {
        let sorted: BTreeMap<TokenHash, Arc<ProxySession>> =
            self.read().iter().map(|(hash, entry)| (*hash, entry.session.clone())).collect();
        let listed = |session: Arc<ProxySession>| Listed {
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

    /// Saves the sessions: hashes, terms and counters, but no keys or tokens.
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
