//! Host commands: commands that an agent in a container may run on the host.
//!
//! A request is a list of words. The [`list`] of the host names the allowed commands, the [`verdict`] finds the entry
//! that allows a request, and `shared_dirs` translates the paths in it. [`serve`] takes requests from a socket or from
//! sshd, runs the allowed ones, and logs each one. No shell ever reads a request.
//!
//! In the container, a [`shim`] replaces each routed command, and a [`relay`] holds the SSH key where the agent cannot
//! read it. [`session`] plans the bridge of a session, [`process`] starts and ends its broker, and [`setup`] prepares a
//! host for requests over SSH.

pub mod list;
pub mod verdict;
pub mod check;
mod shared_dirs;
mod audit;
mod server;
mod request;
mod runner;
mod broker;
mod forced;
pub mod serve;
pub mod route;
pub mod shim;
pub mod relay;
pub mod shell;
pub mod session;
pub mod ssh;
pub mod process;
pub mod setup;

pub use shared_dirs::argument;

#[cfg(test)]
mod tests;
