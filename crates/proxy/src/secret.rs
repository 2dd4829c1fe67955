//! Secrets: where they lie, and how one is had.
//!
//! A [`Location`] says where a secret is; [`Sources`] goes there. What is kept by us lies in a [`Store`],
//! encrypted; its key is in the system's keyring or in a file of its own.

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
pub use store::{Name, Store, StoreError, StoredSecret};
