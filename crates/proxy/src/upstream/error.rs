//! Requests and answers that did not arrive.

use std::io;

use hyper::Request;
use thiserror::Error;

use crate::upload::{Upload, UploadError};

/// An answer that is not HTTP/1.1, or that could be read in two ways.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the answer is not HTTP/1.1: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// An answer that is missing or incomplete.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error("the connection broke")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
}

/// A request that did not reach the server.
pub(crate) enum NotSent {
    /// It was never written: another connection may take it.
    Unused(Box<Request<Upload>>),
    /// Some of it may have been read.
    Failed(CallError),
}
