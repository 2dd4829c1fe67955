//! Sessions: one secret of one sandbox, and what may be done with it.

mod registration;
mod limits;
mod error;
mod ending;
mod key;
mod registry;
mod store;

pub use error::RegistrationError;
pub use limits::Limits;
pub(crate) use limits::Permit;
pub use registration::{Registration, Terms};
pub use registry::{Listed, Registry};
pub use store::StoreError;
pub(crate) use store::read_file;

use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};

use crate::credential::Placement;
use crate::error::Refusal;
use crate::route::Routes;
use crate::server_tools::ServerTools;
use crate::token::TokenHash;
use crate::upstream::Target;
use crate::usage::Tokens;
use ending::Ending;
use key::Key;
use sandbox_policy::catalog::Provider;

/// A session as requests meet it. Nothing of it changes but its key and its counts.
#[derive(Debug)]
pub struct Session {
    /// What is kept of its token.
    pub hash: TokenHash,
    /// A short name for logs.
    pub id: String,
    /// The provider.
    pub provider: &'static Provider,
    /// The one server it talks to.
    pub target: Arc<Target>,
    /// Whose session it is.
    pub sandbox: Option<String>,
    /// Whether it works only on its sandbox's own listener.
    pub bound: bool,
    /// Which methods and paths it may use.
    pub routes: Routes,
    /// What it may make the provider do; without it, everything.
    pub server_tools: Option<ServerTools>,
    /// Its other limits.
    pub limits: Limits,
    ending: Option<Ending>,
    pub(crate) host: HeaderValue,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    placement: Option<Placement>,
    key: Key,
    state: Arc<State>,
}

/// What changes while a session is used. It outlives a new registration of the same token.
#[derive(Debug, Default)]
pub(crate) struct State {
    counts: Mutex<Counts>,
    gate: Mutex<limits::Gate>,
}

/// What a session has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Requests that were let through.
    pub requests: u64,
    /// Their bodies.
    pub bytes_in: u64,
    /// Their answers' bodies.
    pub bytes_out: u64,
    /// Tokens.
    #[serde(flatten)]
    pub tokens: Tokens,
}

impl Session {
    /// What it has used.
    pub fn counts(&self) -> Counts {
        *self.state.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what one exchange used.
    pub(crate) fn add(&self, bytes_in: u64, bytes_out: u64, tokens: Tokens) {
        let mut counts = self.state.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.bytes_in = counts.bytes_in.saturating_add(bytes_in);
        counts.bytes_out = counts.bytes_out.saturating_add(bytes_out);
        counts.tokens += tokens;
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::is_over)
    }

    /// Lets a request in, or says why not.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, Refusal> {
        if self.is_over() {
            let hint = "register the session again, with a later `expires_at`";
            let (status, why) = (StatusCode::UNAUTHORIZED, "this session has ended");
            return Err(Refusal::new(status, "session_expired", why, hint));
        }
        let used = self.counts().tokens.total();
        let permit = self.limits.admit(&self.state, used)?;
        self.state.counts.lock().unwrap_or_else(PoisonError::into_inner).requests += 1;
        Ok(permit)
    }

    /// The key in the form in which it is sent.
    pub(crate) async fn shown(&self) -> Result<Arc<crate::credential::Shown>, Refusal> {
        self.key.shown(self).await
    }

    /// The server did not like the key: one that came from elsewhere is asked for again.
    pub(crate) fn key_refused(&self) {
        self.key.forget();
    }
}
