//! SSH keys of sessions: made or read, and let in on the host.

pub mod key;
pub mod authorized;
