//! Response bodies, independent of the protocol version.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::error::CallError;
use super::http1;

/// Body of a response.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Body with its exclusive connection.
    Http1(Box<http1::Reply>),
    /// Body of a stream. The `Arc` counts streams.
    Http2(Incoming, #[allow(dead_code, reason = "its reference count is used")] Arc<()>),
    /// Body on a connection that is not reused.
    Alone(Incoming),
}

impl Reply {
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        match self {
            Self::Http1(reply) => reply.poll_frame(cx),
            Self::Http2(body, _) | Self::Alone(body) => {
                Pin::new(body).poll_frame(cx).map_err(CallError::Hyper)
            }
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(reply) => reply.is_end_stream(),
            Self::Http2(body, _) | Self::Alone(body) => body.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(reply) => reply.size_hint(),
            Self::Http2(body, _) | Self::Alone(body) => body.size_hint(),
        }
    }

    /// Returns the connection if it can be reused.
    pub(crate) fn into_connection(self) -> Option<http1::Connection> {
        match self {
            Self::Http1(reply) => reply.into_connection(),
            Self::Http2(..) | Self::Alone(_) => None,
        }
    }
}
