//! Host commands as a configuration writes them: the commands that a container may ask for, and the host key that it
//! trusts. Deciding about a request, and running it, is the business of the crate `sandbox-bridge`.

pub mod line;
mod entry;
mod key;

pub use entry::{Args, Entry, EntryError, Paths, matches};
pub use key::PublicKey;
