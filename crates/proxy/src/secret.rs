//! Secrets on the host: their locations, and how they are read.
//!
//! A [`Location`] names a secret's source, and [`Sources`] reads it. A [`Store`] keeps secrets encrypted, with its key
//! in the system keyring or in a separate file.

mod location;
mod seal;
mod keyring;
mod store;
mod command;
mod login;
mod renew;
mod sources;

pub use keyring::KeyStorage;
pub use location::{Lasting, Location};
pub use sources::Sources;
pub use store::{Name, Store, StoreError, StoredSecret, looks_like_a_key};
