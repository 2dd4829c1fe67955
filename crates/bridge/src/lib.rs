//! Host commands: what an agent in a container may have run on the host.
//!
//! A request is a list of words. The [`list`] of the host says what may be asked for, the [`verdict`] finds the entry
//! that allows a request, and `place` translates the paths in it. [`serve`] takes requests from a socket or from sshd,
//! runs what passes, and writes each one to the audit log. No shell ever reads what the agent sent.
//!
//! In the container, a [`shim`] stands in for a routed command, and a [`relay`] holds the SSH key where the agent cannot
//! read it. [`session`] decides what a session needs for that, [`process`] starts and ends its broker, and [`setup`]
//! prepares a host for requests by SSH.

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
