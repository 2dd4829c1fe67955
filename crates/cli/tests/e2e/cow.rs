//! `--cow` and its sessions: changes are isolated until they are applied.

mod run;
mod limits;
mod sessions;
mod removal;
#[cfg(feature = "setup")]
mod moved;
#[cfg(feature = "setup")]
pub(crate) mod killed;

use testkit::{Run, World};

/// A world whose sandboxes use the native rendering, because bubblewrap alone cannot mount an overlay.
fn place() -> World {
    World::new().without_env("AGENT_SANDBOX_MOUNTS")
}

/// Runs a script with isolated changes.
#[track_caller]
fn cow(world: &World, flags: &[&str], script: &str) -> Run {
    world.run([&["--cow"], flags, &["sh", "-c", script]].concat())
}
