//! Key of a session: held in memory since registration, or resolved from a source when needed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use tokio::sync::Mutex as AsyncMutex;

use super::{ProxySession, RegistrationError};
use crate::credential::{PlacedKey, Resolved, Secret, SecretRef, Source, SourceError};
use crate::error::Refusal;

/// Origin of a session's key.
#[derive(Debug)]
pub(super) enum Key {
    /// Sent with the registration. `None` after a restart, until the session is registered again.
    Held { key: Mutex<Option<Secret>>, placed: Mutex<Option<Arc<PlacedKey>>> },
    /// Resolved from a source.
    Referred { reference: SecretRef, source: Arc<dyn Source>, last: Box<Last> },
    /// The provider needs no key.
    None(Arc<PlacedKey>),
}

/// Cached key of a source. `asking` serializes requests to the source.
#[derive(Debug, Default)]
pub(super) struct Last {
    placed: Mutex<Option<(Arc<PlacedKey>, Option<SystemTime>)>>,
    asking: AsyncMutex<()>,
}

/// Keys that expire sooner are resolved again.
const MARGIN: Duration = Duration::from_secs(30);

impl Key {
    pub(super) fn new(
        key: Option<Secret>,
        reference: Option<SecretRef>,
        needed: bool,
        source: &Arc<dyn Source>,
    ) -> Result<Self, RegistrationError> {
        match (key, reference) {
            (Some(_), Some(_)) => Err(RegistrationError::Key),
            (None, Some(reference)) => {
                source.check(&reference)?;
                Ok(Self::Referred { reference, source: source.clone(), last: Box::default() })
            }
            (key, None) if needed => {
                Ok(Self::Held { key: Mutex::new(key), placed: Mutex::default() })
            }
            // The API requires a key even for providers that need none.
            (_, None) => {
                let nothing = Resolved {
                    value: Secret::from(String::new()),
                    headers: Vec::new(),
                    expires: None,
                };
                let placed = PlacedKey::new(&crate::credential::Placement::None, &nothing);
                placed.map(|placed| Self::None(Arc::new(placed))).ok_or(RegistrationError::KeyText)
            }
        }
    }

    /// Checks that a registered key can be sent.
    pub(super) fn check(&self, session: &ProxySession) -> Result<(), RegistrationError> {
        match self {
            Self::Held { key, placed } => {
                let key = lock(key);
                let Some(key) = key.as_ref() else { return Ok(()) };
                let made = place(session, &plain(key)).filter(|_| !key.expose().trim().is_empty());
                *lock(placed) = Some(made.ok_or(RegistrationError::KeyText)?);
                Ok(())
            }
            Self::Referred { .. } | Self::None(_) => Ok(()),
        }
    }

    /// Replaces a registered key.
    pub(super) fn replace(
        &self,
        new: Secret,
        session: &ProxySession,
    ) -> Result<(), RegistrationError> {
        let Self::Held { key, .. } = self else { return Err(RegistrationError::Key) };
        let usable = place(session, &plain(&new)).is_some() && !new.expose().trim().is_empty();
        if !usable {
            return Err(RegistrationError::KeyText);
        }
        *lock(key) = Some(new);
        self.check(session)
    }

    /// Returns true when the key has to be registered again.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Held { key, .. } if lock(key).is_none())
    }

    /// Returns the key in the form in which it is sent.
    pub(super) async fn placed(&self, session: &ProxySession) -> Result<Arc<PlacedKey>, Refusal> {
        match self {
            Self::None(placed) => Ok(placed.clone()),
            Self::Held { placed, .. } => lock(placed).clone().ok_or_else(key_lost),
            Self::Referred { reference, source, last } => match last.current() {
                Some(placed) => Ok(placed),
                None => last.ask(session, reference, source).await,
            },
        }
    }

    /// Clears the cache, so that the next request resolves the key again.
    pub(super) fn forget(&self) {
        if let Self::Referred { last, .. } = self {
            *lock(&last.placed) = None;
        }
    }
}

impl Last {
    fn current(&self) -> Option<Arc<PlacedKey>> {
        let last = lock(&self.placed);
        let (placed, expires) = last.as_ref()?;
        let good = expires.is_none_or(|end| end > SystemTime::now() + MARGIN);
        good.then(|| placed.clone())
    }

    async fn ask(
        &self,
        session: &ProxySession,
        reference: &SecretRef,
        source: &Arc<dyn Source>,
    ) -> Result<Arc<PlacedKey>, Refusal> {
        let _alone = self.asking.lock().await;
        if let Some(placed) = self.current() {
            return Ok(placed);
        }
        let (reference, source) = (reference.clone(), source.clone());
        let asked = tokio::task::spawn_blocking(move || source.resolve(&reference)).await;
        let resolved = asked.map_err(|_| no_key(&stopped()))?.map_err(|error| no_key(&error))?;
        let placed = place(session, &resolved).ok_or_else(|| no_key(&unusable()))?;
        *lock(&self.placed) = Some((placed.clone(), resolved.expires));
        Ok(placed)
    }
}

fn place(session: &ProxySession, key: &Resolved) -> Option<Arc<PlacedKey>> {
    let (placement, headers) = session.shape(key.value.expose());
    let mut key = key.clone();
    key.headers.extend(headers.iter().map(|row| (row.name.to_owned(), row.value.to_owned())));
    PlacedKey::new(&placement, &key).map(Arc::new)
}

fn plain(key: &Secret) -> Resolved {
    Resolved { value: key.clone(), headers: Vec::new(), expires: None }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_key(error: &SourceError) -> Refusal {
    let message = format!("cannot get the session's key: {}", error.message);
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "secret_unavailable", message, error.hint.clone())
}

fn stopped() -> SourceError {
    SourceError {
        message: "its source stopped unexpectedly".into(),
        hint: "see `proxy/log` in the state directory".into(),
    }
}

fn unusable() -> SourceError {
    SourceError {
        message: "it contains characters that are not allowed in a header".into(),
        hint: "check the key for a line break at its end".into(),
    }
}

fn key_lost() -> Refusal {
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "secret_missing",
        "the proxy was restarted and lost this session's key, which it held only in memory",
        "register the session again, or store the key with `agent-sandbox secret set NAME`",
    )
    .retry(1)
}
