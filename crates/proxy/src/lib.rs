//! The credential proxy of agent-sandbox.
//!
//! A sandbox holds a token that is worth nothing elsewhere. It sends the token where a key would go; the
//! proxy puts the real key in its place and forwards the request to the one server that the session
//! names, and streams both ways as bytes arrive.
//!
//! Data flow: [`session`] (what is registered) → `data` (accept, authenticate, swap, forward) → `upstream`
//! (connections to servers). `admin` is the other side: who registers sessions.

pub mod token;
pub mod credential;
pub mod secret;
pub mod path;
pub mod query;
pub mod route;
mod json;
mod letters;
pub mod server_tools;
pub mod headers;
pub mod session;
pub mod usage;
mod limits;
mod scrub;
mod error;
mod idle;
mod upload;
pub mod upstream;
mod data;
mod egress;
mod accept;
mod listen;
pub mod audit;
pub mod prometheus;
mod metrics;
mod telemetry;
mod admin;
pub mod attach;
pub mod rendezvous;
pub mod dirs;
pub mod daily;
pub mod client;
pub mod check;
pub mod server;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use error::{ERROR_HEADER, Refusal};
use session::Registry;

/// What every part of a proxy shares.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub registry: Registry,
    pub metrics: metrics::Metrics,
    pub audit: audit::Audit,
    /// Where spans go, when somebody wants them.
    pub telemetry: Option<telemetry::Telemetry>,
    /// The sandboxes that are there.
    attached: Mutex<HashSet<String>>,
    /// Whether one came since somebody last asked: it may have gone again.
    came: AtomicBool,
    /// Where clients come in that are no sandbox's.
    pub listening: OnceLock<Vec<SocketAddr>>,
    /// Where trouble is told that no client can be told of.
    pub say: fn(&str),
}

impl Proxy {
    pub(crate) fn attached(&self) -> MutexGuard<'_, HashSet<String>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sandbox comes; `false` when one of its name is there.
    pub(crate) fn admit(&self, sandbox: &str) -> bool {
        self.came.store(true, Ordering::Relaxed);
        self.attached().insert(sandbox.to_owned())
    }

    /// Whether nobody has needed it since this was last asked.
    pub(crate) fn was_idle(&self) -> bool {
        let came = self.came.swap(false, Ordering::Relaxed);
        !came && self.registry.is_empty() && self.attached().is_empty()
    }

    /// Writes the sessions down; a failure is told, and what runs goes on.
    pub(crate) fn save(&self) {
        if let Err(error) = self.registry.save() {
            (self.say)(&sandbox_linux::error::chain(&error));
        }
    }
}
