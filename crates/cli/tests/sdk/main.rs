//! Other people's libraries, from PyPI and npm, with this program: what they write, ask for and
//! expect is what their users have. `./dev test` installs them and says where by `AGENT_SANDBOX_SDK`.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

#[path = "../proof/dice.rs"]
mod dice;
mod agentfs;
mod agentfs_bytes;
mod providers;
