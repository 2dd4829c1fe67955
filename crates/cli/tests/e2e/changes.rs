//! Review of a session's changes: `diff`, `apply`, `discard` and `undo`.

mod diff;
mod apply;
mod conflict;
mod interactive;
mod undo;
#[cfg(feature = "setup")]
mod crash;
#[cfg(feature = "setup")]
mod kill;
#[cfg(feature = "setup")]
mod shifting;
mod discard;
mod git;
mod closed;

use testkit::{Process, Run, World};

/// Runs a script in the copy-on-write session `s`.
#[track_caller]
pub(crate) fn change(world: &World, script: &str) -> Run {
    change_as(world, "s", script)
}

/// Runs a script in another session. These runs always use the native rendering, because bubblewrap alone cannot
/// mount an overlay, and the review does not depend on it.
#[track_caller]
pub(crate) fn change_as(world: &World, session: &str, script: &str) -> Run {
    start(world, session, script).wait().succeeds()
}

/// Starts a script in a session.
#[track_caller]
pub(crate) fn start(world: &World, session: &str, script: &str) -> Process {
    let world = world.clone().without_env("AGENT_SANDBOX_MOUNTS");
    world.spawn(["--cow", "--session", session, "sh", "-ec", script])
}

/// Every file below a directory of the world: type, mode, time and content.
#[track_caller]
pub(crate) fn tree(world: &World, dir: &str) -> String {
    let dir = world.path(dir).display().to_string();
    let find = "cd \"$0\" && find . -mindepth 1 -path ./.git -prune -o \\( -type d -printf 'd %p %m\\n' \\) -o \
        \\( -type l -printf 'l %p %l\\n' \\) -o -printf '%y %p %m %T@ ' -exec sha256sum {} \\; | sort";
    world.host(["sh", "-c", find, &dir]).succeeds().output()
}
