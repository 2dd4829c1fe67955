//! The credential proxy of agent-sandbox.
//!
//! A sandbox holds a token that is useless elsewhere, and sends it in place of an API key. The proxy replaces it with
//! the real key, forwards the request to the session's server, and streams the response back.
//!
//! Data flow: [`session`] (registered sessions) → `data` (authenticate, swap the credential, forward) → `upstream`
//! (connections to servers). `admin` registers sessions.

pub mod token;
pub mod credential;
pub mod secret;
pub mod path;
pub mod query;
pub mod route;
mod json;
mod base64_secret;
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
pub mod detach;
pub mod check;
pub mod server;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use error::Refusal;
use session::Registry;

/// State shared by all parts of a proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub registry: Registry,
    pub metrics: metrics::Metrics,
    pub audit: audit::Audit,
    /// Exporter of spans, if tracing is configured.
    pub telemetry: Option<telemetry::Telemetry>,
    /// IDs of attached sandboxes.
    attached: Mutex<HashSet<String>>,
    /// True when a sandbox attached since the last idle check, even if it has detached again.
    newly_attached: AtomicBool,
    /// Addresses of the listeners for clients outside sandboxes.
    pub listening: OnceLock<Vec<SocketAddr>>,
    /// Prints errors that no client can receive.
    pub say: fn(&str),
}

impl Proxy {
    pub(crate) fn attached(&self) -> MutexGuard<'_, HashSet<String>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a sandbox. Returns `false` when one with this ID is attached.
    pub(crate) fn admit(&self, sandbox: &str) -> bool {
        self.newly_attached.store(true, Ordering::Relaxed);
        self.attached().insert(sandbox.to_owned())
    }

    /// Returns true when the proxy was unused since the last call.
    pub(crate) fn was_idle(&self) -> bool {
        let attached = self.newly_attached.swap(false, Ordering::Relaxed);
        !attached && self.registry.is_empty() && self.attached().is_empty()
    }

    /// Saves the sessions. A failure is printed and does not stop the proxy.
    pub(crate) fn save(&self) {
        if let Err(error) = self.registry.save() {
            (self.say)(&sandbox_linux::error::chain(&error));
        }
    }
}
