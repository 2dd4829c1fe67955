//! Endpoints of clients: the scope of a listener, its egress, and how many connections it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::data::Scope;
use crate::egress::Exit;
use crate::limits;

/// The proxy's side of a listener.
#[derive(Debug)]
pub(crate) struct Endpoint {
    scope: Scope,
    /// Egress by name, where the sandbox has one.
    exit: Option<Arc<Exit>>,
    connections: AtomicUsize,
}

impl Endpoint {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Self::with_exit(scope, None)
    }

    /// Creates one through which a sandbox also reaches hosts by name.
    pub(crate) fn with_exit(scope: Scope, exit: Option<Arc<Exit>>) -> Arc<Self> {
        Arc::new(Self { scope, exit, connections: AtomicUsize::new(0) })
    }

    pub(crate) fn exit(&self) -> Option<&Arc<Exit>> {
        self.exit.as_ref()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Admits one more connection, unless there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Admission> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= limits::CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Admission(self.clone()))
    }
}

/// Slot of a connection that was admitted.
#[derive(Debug)]
pub(crate) struct Admission(Arc<Endpoint>);

impl Admission {
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
