//! Third-party libraries from PyPI and npm with this program, unmodified, as users have them.
//! `./dev test` installs them, and passes their location in `AGENT_SANDBOX_SDK`.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

#[path = "../proof/dice.rs"]
mod dice;
mod agentfs;
mod agentfs_bytes;
mod providers;
