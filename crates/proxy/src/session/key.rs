//! A session's key: held since it was registered, or asked for when it is needed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use tokio::sync::Mutex as AsyncMutex;

use super::{RegistrationError, Session};
use crate::credential::{Resolved, Secret, SecretRef, Shown, Source, SourceError};
use crate::error::Refusal;

/// Where a session's key comes from.
#[derive(Debug)]
pub(super) enum Key {
    /// Somebody handed it over. `None` after a restart, until somebody does again.
    Held { key: Mutex<Option<Secret>>, shown: Mutex<Option<Arc<Shown>>> },
    /// A source knows it.
    Referred { reference: SecretRef, source: Arc<dyn Source>, last: Box<Last> },
    /// The provider wants none.
    None(Arc<Shown>),
}

/// What a source said last; `asking` makes sure that it is asked once at a time.
#[derive(Debug, Default)]
pub(super) struct Last {
    shown: Mutex<Option<(Arc<Shown>, Option<SystemTime>)>>,
    asking: AsyncMutex<()>,
}

/// A key that ends this soon is asked for again.
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
                Ok(Self::Held { key: Mutex::new(key), shown: Mutex::default() })
            }
            // The contract asks for a key even where none is used.
            (_, None) => {
                let nothing = Resolved {
                    value: Secret::from(String::new()),
                    headers: Vec::new(),
                    expires: None,
                };
                let shown = Shown::new(&crate::credential::Placement::None, &nothing);
                shown.map(|shown| Self::None(Arc::new(shown))).ok_or(RegistrationError::KeyText)
            }
        }
    }

    /// Whether a key that was handed over can be sent.
    pub(super) fn check(&self, session: &Session) -> Result<(), RegistrationError> {
        match self {
            Self::Held { key, shown } => {
                let key = lock(key);
                let Some(key) = key.as_ref() else { return Ok(()) };
                let made = show(session, &plain(key)).filter(|_| !key.expose().trim().is_empty());
                *lock(shown) = Some(made.ok_or(RegistrationError::KeyText)?);
                Ok(())
            }
            Self::Referred { .. } | Self::None(_) => Ok(()),
        }
    }

    /// Puts another key in the place of the one that was handed over.
    pub(super) fn replace(&self, new: Secret, session: &Session) -> Result<(), RegistrationError> {
        let Self::Held { key, .. } = self else { return Err(RegistrationError::Key) };
        let usable = show(session, &plain(&new)).is_some() && !new.expose().trim().is_empty();
        if !usable {
            return Err(RegistrationError::KeyText);
        }
        *lock(key) = Some(new);
        self.check(session)
    }

    /// Whether it has to be handed over again.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Held { key, .. } if lock(key).is_none())
    }

    /// The key in the form in which it is sent.
    pub(super) async fn shown(&self, session: &Session) -> Result<Arc<Shown>, Refusal> {
        match self {
            Self::None(shown) => Ok(shown.clone()),
            Self::Held { shown, .. } => lock(shown).clone().ok_or_else(handed_over_no_more),
            Self::Referred { reference, source, last } => match last.current() {
                Some(shown) => Ok(shown),
                None => last.ask(session, reference, source).await,
            },
        }
    }

    /// Asks the source again at the next request.
    pub(super) fn forget(&self) {
        if let Self::Referred { last, .. } = self {
            *lock(&last.shown) = None;
        }
    }
}

impl Last {
    fn current(&self) -> Option<Arc<Shown>> {
        let last = lock(&self.shown);
        let (shown, expires) = last.as_ref()?;
        let good = expires.is_none_or(|end| end > SystemTime::now() + MARGIN);
        good.then(|| shown.clone())
    }

    async fn ask(
        &self,
        session: &Session,
        reference: &SecretRef,
        source: &Arc<dyn Source>,
    ) -> Result<Arc<Shown>, Refusal> {
        let _alone = self.asking.lock().await;
        if let Some(shown) = self.current() {
            return Ok(shown);
        }
        let (reference, source) = (reference.clone(), source.clone());
        let asked = tokio::task::spawn_blocking(move || source.resolve(&reference)).await;
        let resolved = asked.map_err(|_| no_key(&stopped()))?.map_err(|error| no_key(&error))?;
        let shown = show(session, &resolved).ok_or_else(|| no_key(&unusable()))?;
        *lock(&self.shown) = Some((shown.clone(), resolved.expires));
        Ok(shown)
    }
}

fn show(session: &Session, key: &Resolved) -> Option<Arc<Shown>> {
    let (placement, headers) = session.shape(key.value.expose());
    let mut key = key.clone();
    key.headers.extend(headers.iter().map(|row| (row.name.to_owned(), row.value.to_owned())));
    Shown::new(&placement, &key).map(Arc::new)
}

fn plain(key: &Secret) -> Resolved {
    Resolved { value: key.clone(), headers: Vec::new(), expires: None }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_key(error: &SourceError) -> Refusal {
    let message = format!("the session's key cannot be had: {}", error.message);
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "secret_unavailable", message, error.hint.clone())
}

fn stopped() -> SourceError {
    SourceError {
        message: "its source ended without an answer".into(),
        hint: "look at the proxy's log".into(),
    }
}

fn unusable() -> SourceError {
    SourceError {
        message: "it has characters that no header can carry".into(),
        hint: "look for a line break at the end of the key".into(),
    }
}

fn handed_over_no_more() -> Refusal {
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "secret_missing",
        "the proxy was restarted, and this session's key was only in its memory",
        "register the session again, or keep the key in the store: agent-sandbox secret set",
    )
    .retry(1)
}
