//! Workspace of a configuration: a directory of the host, or a clone.

use std::path::Path;

use sandbox_policy::config::Config;
use sandbox_protocol::layout::WORKSPACE;

/// Returns the directory that becomes the workspace.
pub(super) fn project(config: &Config) -> &Path {
    let named = config.mounts.iter().find(|mount| mount.value.target == Path::new(WORKSPACE));
    named.map_or(&config.cwd, |mount| &mount.value.host)
}

/// Returns true when PID 1 sets up the home and the workspace in it.
pub(super) fn sets_up_home(config: &Config) -> bool {
    clones(config) || config.session.home.is_some()
}

/// Returns true when the workspace is a clone.
pub(super) fn clones(config: &Config) -> bool {
    config.session.workspace.as_ref().is_some_and(|workspace| workspace.value.path.is_some())
}
