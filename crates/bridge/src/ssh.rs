//! SSH keys of sessions: creation, reading, and authorization on the host.

pub mod key;
pub mod authorized;
