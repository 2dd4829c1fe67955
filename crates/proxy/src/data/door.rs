//! A place where clients come in, and whose sessions work there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::egress::Exit;
use crate::limits;
use crate::session::Session;

/// Who stands behind a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Anybody who has a token that is not bound.
    Open,
    /// One sandbox.
    Sandbox(String),
}

/// A listener's other side.
#[derive(Debug)]
pub(crate) struct Door {
    scope: Scope,
    /// The way out by name, if there is one.
    exit: Option<Arc<Exit>>,
    connections: AtomicUsize,
}

impl Door {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Self::with_exit(scope, None)
    }

    /// One through which a sandbox also gets out.
    pub(crate) fn with_exit(scope: Scope, exit: Option<Arc<Exit>>) -> Arc<Self> {
        Arc::new(Self { scope, exit, connections: AtomicUsize::new(0) })
    }

    pub(super) fn exit(&self) -> Option<&Arc<Exit>> {
        self.exit.as_ref()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether a session works here: one that came with a sandbox nowhere but there, and no sandbox
    /// can use another's.
    pub(super) fn admits(&self, session: &Session) -> bool {
        match &self.scope {
            Scope::Open => !session.bound,
            Scope::Sandbox(id) => session.sandbox.as_deref() == Some(id),
        }
    }

    /// A place for one more connection, unless there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Guest> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= limits::CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Guest(self.clone()))
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Guest(Arc<Door>);

impl Guest {
    pub(super) fn door(&self) -> &Arc<Door> {
        &self.0
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
