//! Temporary world for tests that run the real binary.
//!
//! A [`World`] is a home and a project for one test. [`World::run`] runs a command in the sandbox. [`World::host`] runs it
//! outside, as the control that every denial needs.
//!
//! ```no_run
//! use testkit::World;
//!
//! let world = World::new().file("home/diary", "dear");
//! world.run(["sh", "-c", "cat ~/diary"]).succeeds().stdout("dear");
//! world.run(["--exclude", "~/diary", "sh", "-c", "cat ~/diary"]).succeeds().stdout("");
//! ```
//!
//! A missing requirement makes a test fail. See [`need`].
#![allow(clippy::missing_panics_doc, reason = "tests fail by panicking")]
#![allow(
    clippy::return_self_not_must_use,
    reason = "assertions are chained, and the last one is a statement"
)]

mod caller;
mod root;
mod world;
mod process;
mod run;
mod terminal;
mod layered;
mod dice;
mod docker;
mod daemon;
mod authority;
mod provider;
mod wait;
mod transcript;

pub use authority::{Authority, Identity};
pub use caller::{User, agents, need, rounds, sdk, user};
pub use daemon::Daemon;
pub use dice::{Dice, seeds};
pub use docker::{Container, Docker, arm64_binary, static_binary};
pub use layered::{Engine, Layered};
pub use process::Process;
pub use provider::{Answer, EVENTS, Provider};
pub use run::Run;
pub use rustix::process::Signal;
pub use terminal::{CTRL_C, CTRL_D, CTRL_Z, ENTER, Terminal};
pub use transcript::{Block, Page, Part, Step, matches};
pub use wait::{PATIENCE, until};
pub use world::World;
pub use world::namespace::Namespace;

#[cfg(test)]
mod tests;
