//! Content of a path before any rule applies: the host's root, or a directory of the sandbox.

use std::path::Path;

use sandbox_protocol::layout::RUNTIME_DIR;

use sandbox_policy::config::{Access, Tmp};
use sandbox_policy::path::{Kind, Resolved};

/// Content of a path that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseView {
    /// The host's files, read-only.
    Host,
    /// An empty private directory.
    Empty,
    /// The sandbox's private `/dev` or `/proc`.
    Own,
}

impl BaseView {
    /// Returns the base view of a path.
    pub fn of(path: &Path, tmp: Tmp) -> Self {
        // `/dev/shm` holds files and no devices, so rules apply there as anywhere else.
        let is_shm = path.starts_with("/dev/shm");
        if path.starts_with("/proc") || (path.starts_with("/dev") && !is_shm) {
            return Self::Own;
        }
        if is_shm || path.starts_with("/run") || (tmp == Tmp::Private && path.starts_with("/tmp")) {
            return Self::Empty;
        }
        Self::Host
    }
}

/// Returns true if a rule names a path that the sandbox manages.
pub(super) fn is_reserved(rule: &Resolved) -> bool {
    if rule.kind == Kind::Missing {
        return false;
    }
    let path = rule.path.as_path();
    path.starts_with("/proc")
        || path.starts_with(RUNTIME_DIR)
        || path == Path::new("/dev")
        || path == Path::new("/run")
        || (path == Path::new("/") && rule.access == Access::Exclude)
}
