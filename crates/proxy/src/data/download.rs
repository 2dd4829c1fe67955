//! Body of a response on its way to the client. Bytes are forwarded as they arrive, with the key scrubbed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::HeaderMap;
use thiserror::Error;

use super::exchange::{Exchange, Outcome};
use crate::idle::Idle;
use crate::limits;
use crate::scrub::Scrubber;
use crate::upstream::{CallError, Pool, Reply, Target};

/// Failure in the middle of a response. It closes the client's connection, so that the response never looks complete.
#[derive(Debug, Error)]
pub(crate) enum DownloadError {
    #[error("the server closed the connection in the middle of the response")]
    Server(#[source] CallError),
    #[error("the server stopped sending")]
    Idle,
}

/// Body of a response to a client.
pub(crate) enum Body {
    /// Text of the proxy.
    Whole(Option<Bytes>),
    /// Response of the session's server.
    Download(Box<Download>),
    /// Response of a server that a sandbox reaches by name.
    Passed(Incoming),
}

/// Response of the session's server.
pub(crate) struct Download {
    /// Taken when the response is complete, to reuse its connection.
    body: Option<Reply>,
    scrubber: Scrubber,
    secrets: Arc<crate::credential::PlacedKey>,
    idle: Idle,
    exchange: Exchange,
    back: Option<Back>,
    /// Trailers that follow the rest of the body.
    trailers: Option<HeaderMap>,
    /// Failure to report after the bytes before it were flushed.
    failed: Option<DownloadError>,
    ended: bool,
}

/// Pool that gets the connection when the response is complete.
pub(super) struct Back {
    pub pool: Arc<Pool>,
    pub target: Arc<Target>,
}

impl Download {
    pub(super) fn new(
        body: Reply,
        secrets: Arc<crate::credential::PlacedKey>,
        exchange: Exchange,
        back: Option<Back>,
    ) -> Self {
        let scrubber = Scrubber::new(&secrets.scrubbed);
        let idle =
            exchange.session.as_ref().map_or(limits::IDLE_TIMEOUT, |session| session.limits.idle());
        Self {
            body: Some(body),
            scrubber,
            secrets,
            idle: Idle::new(idle),
            exchange,
            back,
            trailers: None,
            failed: None,
            ended: false,
        }
    }

    /// Counts a piece and scrubs it.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        self.idle.moved();
        self.exchange.bytes_out += piece.len() as u64;
        self.exchange.counter.see(&piece);
        self.scrubber.pass(piece)
    }

    /// Returns true when nothing more follows.
    fn is_end(&self) -> bool {
        let empty = self.scrubber.held() == 0 && self.trailers.is_none();
        self.ended || (self.body.as_ref().is_none_or(Reply::is_end_stream) && empty)
    }

    /// Ends the body with trailers. Bytes that the scrubber holds go first.
    fn last(&mut self, trailers: HeaderMap) -> Frame<Bytes> {
        let rest = self.scrubber.rest();
        if rest.is_empty() {
            return Frame::trailers(trailers);
        }
        self.trailers = Some(trailers);
        Frame::data(rest)
    }

    fn complete(&mut self) {
        self.ended = true;
        self.exchange.outcome = Outcome::Complete;
        let connection = self.body.take().and_then(Reply::into_connection);
        if let Some((back, connection)) = self.back.take().zip(connection) {
            back.pool.give_back(&back.target, connection);
        }
    }

    /// Fails at the next poll. An error makes hyper drop what it has not written yet.
    fn broken(
        &mut self,
        why: DownloadError,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        self.exchange.outcome = Outcome::Broken;
        self.failed = Some(why);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        if let Some(why) = self.failed.take() {
            self.ended = true;
            return Poll::Ready(Some(Err(why)));
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        loop {
            let Some(body) = self.body.as_mut().filter(|_| !self.ended) else {
                return Poll::Ready(None);
            };
            let Poll::Ready(frame) = body.poll_frame(cx) else {
                ready!(self.idle.poll_over(cx));
                return self.broken(DownloadError::Idle, cx);
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return self.broken(DownloadError::Server(error), cx),
                None => {
                    self.complete();
                    let rest = self.scrubber.rest();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
            };
            match frame.into_data() {
                Ok(piece) => {
                    let piece = self.pass(piece);
                    if !piece.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(piece))));
                    }
                }
                Err(frame) => {
                    if let Ok(mut trailers) = frame.into_trailers() {
                        crate::headers::strip_trailers(&mut trailers, &self.secrets.scrubbed);
                        return Poll::Ready(Some(Ok(self.last(trailers))));
                    }
                }
            }
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // A response without a body or with a known length may never be polled to its end.
        if !self.ended && self.failed.is_none() && self.is_end() {
            self.complete();
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = DownloadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Download(download) => download.poll(cx),
            Self::Passed(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| DownloadError::Server(CallError::Hyper(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Download(download) => download.is_end(),
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // Scrubbing preserves lengths, and nothing is held back before the first piece.
            Self::Download(download) => {
                download.body.as_ref().map_or_else(SizeHint::new, Reply::size_hint)
            }
            Self::Passed(body) => body.size_hint(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}
