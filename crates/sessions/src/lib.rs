//! Sessions: sandboxes that outlive a command, on any backend.
//!
//! A request is a [`session::NewSession`]. The [`service`] decides what to do, the [`store`] records each resource
//! before it is created, and a [`backend`] creates it. After a crash, the next command finds in the database what may
//! exist, and completes or removes it.

pub mod session;
pub mod store;
pub mod backend;
pub mod service;
pub mod relay;
pub mod listing;
pub mod removal;
pub mod pruning;
mod known;
#[cfg(feature = "docker")]
pub mod image;
mod layer;
pub mod http;
mod error;
mod data_dir;

pub use data_dir::DataDir;
pub use error::ControlError;
pub use known::{UnknownSession, unknown};
pub use service::Service;

/// Environment variable with the bearer token of the API over TCP.
pub const API_TOKEN: &str = "AGENT_SANDBOX_API_TOKEN";
