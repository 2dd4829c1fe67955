//! Connections to the sessions' servers.

mod error;
mod target;
mod address;
mod tls;
mod dial;
pub mod http1;
mod reply;
mod pool;

pub(crate) use dial::{DialError, Dialer};
pub use error::Malformed;
pub(crate) use error::{CallError, NotSent};
pub(crate) use pool::{Lease, Pool};
pub(crate) use reply::Reply;
pub use target::{Target, TargetError};
