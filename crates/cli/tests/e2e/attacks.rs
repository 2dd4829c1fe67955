//! Attacks by an agent in the sandbox. Every attack of `docs/concepts/attacks.md` that is stopped has a test here
//! that carries its id. The same test shows that the attack works without the protection.

mod filesystem;
mod git;
mod environment;
#[cfg(feature = "setup")]
mod sockets;
mod terminal;
mod processes;
#[cfg(feature = "setup")]
mod kernel;
mod planting;
#[cfg(feature = "sessions")]
mod layers;
#[cfg(feature = "sessions")]
mod changes;

use testkit::{Run, World, need};

/// Runs a script in the sandbox.
#[track_caller]
fn inside(world: &World, script: &str) -> Run {
    world.run(["sh", "-c", script])
}

/// Runs a script without the sandbox, as the control.
#[track_caller]
fn outside(world: &World, script: &str) -> Run {
    world.host(["sh", "-c", script])
}

/// Runs Python in the sandbox, with flags.
#[track_caller]
fn python_inside(world: &World, flags: &[&str], code: &str) -> Run {
    let python = python();
    world.run(flags.iter().copied().chain([python.as_str(), "-c", code]))
}

/// Runs Python without the sandbox, as the control.
#[track_caller]
fn python_outside(world: &World, code: &str) -> Run {
    world.host([python().as_str(), "-c", code])
}

#[track_caller]
fn python() -> String {
    need("python3").display().to_string()
}

/// Returns true when these tests use the bubblewrap rendering, which enforces slightly less.
fn is_plain(world: &World) -> bool {
    world.host(["sh", "-c", "echo $AGENT_SANDBOX_MOUNTS"]).output().trim() == "bwrap"
}

/// Compiles a C program to `project/NAME`.
#[track_caller]
fn compile(world: &World, name: &str, source: &str) {
    let cc = need("cc").display().to_string();
    world.write(format!("outside/{name}.c"), source);
    let source = world.path(format!("outside/{name}.c")).display().to_string();
    world.host([cc.as_str(), "-O1", "-o", name, &source]).succeeds();
}
