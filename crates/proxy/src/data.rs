//! The data plane: accept → authenticate → swap the credential → forward → stream back.

mod authenticate;
mod forward;
mod check;
mod body;
mod rewrite;
mod send;
mod exchange;
mod download;
mod tunnel;

pub(crate) use authenticate::Scope;
pub(crate) use download::Body;
pub(crate) use forward::answer;

use std::sync::Arc;

use crate::Proxy;
use crate::upstream::Pool;

/// State shared by all requests of a worker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub proxy: Arc<Proxy>,
    pub pool: Arc<Pool>,
}
