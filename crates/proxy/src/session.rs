//! Sessions: a secret that one sandbox may use through the proxy, and its limits.

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

/// A registered session. Only its key and counters change.
#[derive(Debug)]
pub struct ProxySession {
    /// Hash of the token.
    pub hash: TokenHash,
    /// Short ID for logs.
    pub id: String,
    /// The provider.
    pub provider: &'static Provider,
    /// The server that requests are forwarded to.
    pub target: Arc<Target>,
    /// ID of the sandbox.
    pub sandbox: Option<String>,
    /// True when it works only on the sandbox's own listener.
    pub bound: bool,
    /// Allowed methods and paths.
    pub routes: Routes,
    /// Allowed server-side tools. `None` allows all.
    pub server_tools: Option<ServerTools>,
    /// Other limits.
    pub limits: Limits,
    ending: Option<Ending>,
    pub(crate) host: HeaderValue,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    placement: Option<Placement>,
    key: Key,
    state: Arc<State>,
}

/// Mutable state of a session. It survives a new registration of the same token.
#[derive(Debug, Default)]
pub(crate) struct State {
    counts: Mutex<Counts>,
    gate: Mutex<limits::Gate>,
}

/// Usage of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Admitted requests.
    pub requests: u64,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub bytes_out: u64,
    /// Tokens.
    #[serde(flatten)]
    pub tokens: Tokens,
}

impl ProxySession {
    /// Returns the session's usage.
    pub fn counts(&self) -> Counts {
        *self.state.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the usage of one exchange.
    pub(crate) fn add(&self, bytes_in: u64, bytes_out: u64, tokens: Tokens) {
        let mut counts = self.state.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.bytes_in = counts.bytes_in.saturating_add(bytes_in);
        counts.bytes_out = counts.bytes_out.saturating_add(bytes_out);
        counts.tokens += tokens;
    }

    /// Returns true when the session has expired.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::is_over)
    }

    /// Admits a request, or returns the reason not to.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, Refusal> {
        if self.is_over() {
            let hint = "register the session again, with a later `expires_at`";
            let (status, why) = (StatusCode::UNAUTHORIZED, "the session has expired");
            return Err(Refusal::new(status, "session_expired", why, hint));
        }
        let used = self.counts().tokens.total();
        let permit = self.limits.admit(&self.state, used)?;
        self.state.counts.lock().unwrap_or_else(PoisonError::into_inner).requests += 1;
        Ok(permit)
    }

    /// Returns the key in the form in which it is sent.
    pub(crate) async fn placed(&self) -> Result<Arc<crate::credential::PlacedKey>, Refusal> {
        self.key.placed(self).await
    }

    /// Reports that the server rejected the key. A key from a source is resolved again.
    pub(crate) fn key_refused(&self) {
        self.key.forget();
    }
}
