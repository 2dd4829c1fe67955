//! `--cow` and its sessions: changes stay apart until somebody takes them over.

mod run;
mod limits;
mod sessions;
mod removal;
mod moved;
pub(crate) mod killed;

use testkit::{Run, World};

/// A world whose sandboxes make their own mounts: bubblewrap alone cannot make an overlay.
fn place() -> World {
    World::new().without_env("AGENT_SANDBOX_MOUNTS")
}

/// Runs a script with its changes kept apart.
#[track_caller]
fn cow(world: &World, flags: &[&str], script: &str) -> Run {
    world.run([&["--cow"], flags, &["sh", "-c", script]].concat())
}
