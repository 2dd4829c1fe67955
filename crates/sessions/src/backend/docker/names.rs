//! Names of containers and volumes. They derive from the session's id, so those of a killed command are found.

use crate::session::Session;

/// Prefix of every container's name.
pub(super) const PREFIX: &str = "agent-sandbox-";

/// Returns the name of a session's container.
pub(super) fn container(session: &Session) -> String {
    format!("{PREFIX}{}", session.id)
}

/// Returns the name of the volume that shows a session's layered directory.
pub(super) fn volume(id: &str, root: usize) -> String {
    format!("{}{root}", volumes(&format!("{PREFIX}{id}")))
}

/// Returns the prefix of the names of a container's volumes.
pub(super) fn volumes(container: &str) -> String {
    format!("{container}-layer-")
}
