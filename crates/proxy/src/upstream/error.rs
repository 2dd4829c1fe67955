//! Errors of requests to servers.

use std::io;

use hyper::Request;
use thiserror::Error;

use crate::upload::{Upload, UploadError};

/// A response that is not HTTP/1.1, or is ambiguous.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("invalid HTTP/1.1 response: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// Missing or incomplete response.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error("the connection was closed before the response was complete")]
    Closed,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
}

/// Request that did not get a response.
pub(crate) enum NotSent {
    /// Nothing was written, so it can be sent on another connection.
    Unused(Box<Request<Upload>>),
    /// The server may have read some of it.
    Failed(CallError),
}
