//! The servers behind the proxy: which one a session talks to, and connections to it.

mod target;
mod address;
mod tls;
mod dial;
pub mod http1;
mod reply;
mod pool;

pub(crate) use dial::{DialError, Dialer};
pub(crate) use pool::{Lease, NotSent, Pool};
pub(crate) use reply::{CallError, Reply};
pub use target::{Target, TargetError};
