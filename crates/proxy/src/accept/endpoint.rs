//! Endpoints: the scope of a listener, its egress, and its connection limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::data::Scope;
use crate::egress::EgressProxy;
use crate::limits;

/// The proxy's side of a listener.
#[derive(Debug)]
pub(crate) struct Endpoint {
    scope: Scope,
    /// Egress by host name, if the sandbox has it.
    egress: Option<Arc<EgressProxy>>,
    connections: AtomicUsize,
}

impl Endpoint {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Self::with_egress(scope, None)
    }

    /// Creates an endpoint through which a sandbox also reaches hosts by name.
    pub(crate) fn with_egress(scope: Scope, egress: Option<Arc<EgressProxy>>) -> Arc<Self> {
        Arc::new(Self { scope, egress, connections: AtomicUsize::new(0) })
    }

    pub(crate) fn egress(&self) -> Option<&Arc<EgressProxy>> {
        self.egress.as_ref()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Admits a connection, unless the limit is reached.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Admission> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= limits::CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Admission(self.clone()))
    }
}

/// Slot of an admitted connection. Dropping it frees the slot.
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
