//! Body of a request on its way to the server. It is streamed, counted and limited.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use thiserror::Error;

use crate::idle::Idle;

/// Failure in the middle of a request body.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadError {
    #[error("the body is larger than allowed")]
    TooLarge = 1,
    #[error("the client stopped sending")]
    Idle = 2,
    #[error("the client closed the connection in the middle of the body")]
    Client = 3,
}

/// Progress of an upload.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    failed: AtomicU8,
}

impl Progress {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the failure, if the body failed and not the server.
    pub(crate) fn failed(&self) -> Option<UploadError> {
        match self.failed.load(Ordering::Relaxed) {
            1 => Some(UploadError::TooLarge),
            2 => Some(UploadError::Idle),
            3 => Some(UploadError::Client),
            _ => None,
        }
    }
}

/// Body of a request.
#[derive(Debug)]
pub(crate) struct Upload {
    from: From,
    most: u64,
    progress: Arc<Progress>,
    idle: Idle,
}

#[derive(Debug)]
enum From {
    Client(Incoming),
    /// Body that was buffered.
    Memory(Option<Bytes>),
}

impl Upload {
    pub(crate) fn client(
        body: Incoming,
        patience: Duration,
        most: u64,
        progress: Arc<Progress>,
    ) -> Self {
        Self { from: From::Client(body), most, progress, idle: Idle::new(patience) }
    }

    pub(crate) fn memory(body: Bytes, progress: Arc<Progress>) -> Self {
        let body = (!body.is_empty()).then_some(body);
        Self { from: From::Memory(body), most: u64::MAX, progress, idle: Idle::new(Duration::MAX) }
    }

    fn fail(&self, why: UploadError) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        self.progress.failed.store(why as u8, Ordering::Relaxed);
        Poll::Ready(Some(Err(why)))
    }

    fn count(&self, bytes: usize) -> u64 {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let polled = match &mut self.from {
            From::Memory(bytes) => {
                let bytes = bytes.take();
                return Poll::Ready(bytes.map(|bytes| {
                    self.count(bytes.len());
                    Ok(Frame::data(bytes))
                }));
            }
            From::Client(body) => Pin::new(body).poll_frame(cx),
        };
        let Poll::Ready(frame) = polled else {
            ready!(self.idle.poll_over(cx));
            return self.fail(UploadError::Idle);
        };
        self.idle.moved();
        match frame {
            None => Poll::Ready(None),
            Some(Err(_)) => self.fail(UploadError::Client),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if self.count(bytes) > self.most {
                    return self.fail(UploadError::TooLarge);
                }
                // Drop trailers, which could contain a header that was removed.
                if frame.is_trailers() { Poll::Ready(None) } else { Poll::Ready(Some(Ok(frame))) }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Client(body) => body.is_end_stream(),
            From::Memory(body) => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Client(body) => body.size_hint(),
            From::Memory(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
        }
    }
}
