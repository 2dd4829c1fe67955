//! Accepted connections: which protocol a client speaks, and who answers its requests.

mod endpoint;
mod worker;

pub(crate) use endpoint::Endpoint;
pub(crate) use worker::{Accepted, Socket, Workers};
