//! Host commands in a configuration: the commands that a container may request, and the host key that it trusts. The
//! crate `sandbox-bridge` decides about requests and runs them.

pub mod line;
mod entry;
mod key;

pub use entry::{Args, Entry, EntryError, Paths, matches};
pub use key::PublicKey;
