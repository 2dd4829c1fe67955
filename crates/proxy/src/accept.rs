//! Accepted connections. Detects the protocol of a client and passes its requests to their handlers.

mod endpoint;
mod worker;

pub(crate) use endpoint::Endpoint;
pub(crate) use worker::{Accepted, Socket, Workers};
