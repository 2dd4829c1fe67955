//! Policy: configuration text becomes typed values, each with the file and line it comes from.
//!
//! ```text
//! host      facts about this machine and user, read once
//! catalog   agents, providers and secrets, one row each
//! variable  environment variables that a sandbox hides, by name
//! network   names, addresses, and which of them may be reached
//! config    files and flags → one merged configuration
//! path      path patterns, resolved against the file system
//! preset    named sets of rules
//! starter   the configuration that `init` writes for a project
//! ```

pub mod host;
pub mod text;
pub mod catalog;
pub mod variable;
pub mod network;
pub mod config;
pub mod path;
pub mod preset;
pub mod starter;

pub use host::Host;
