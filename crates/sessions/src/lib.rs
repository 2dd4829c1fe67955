//! Sessions: sandboxes that outlive a command, on any backend.
//!
//! What was asked for is a [`session::NewSession`]. The [`service`] decides what is to be done, the
//! [`store`] remembers each thing before it is made, and a [`backend`] makes it. Whatever is killed
//! on the way, the next command finds in the record what there may be, and goes on or takes it back.

pub mod session;
pub mod store;
pub mod backend;
pub mod service;
pub mod relay;
pub mod listing;
pub mod removal;
mod known;
#[cfg(feature = "docker")]
pub mod image;
mod layer;
pub mod http;
mod error;
mod data_dir;

pub use data_dir::DataDir;
pub use error::ControlError;
pub use known::UnknownSession;
pub use service::Service;

/// The variable that holds the token for callers of the API by TCP.
pub const API_TOKEN: &str = "AGENT_SANDBOX_API_TOKEN";
