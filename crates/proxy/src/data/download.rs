//! An answer's body on its way to the client: every byte as it arrives, without the key.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use thiserror::Error;
use zeroize::Zeroizing;

use super::exchange::{Exchange, Outcome};
use super::idle::Idle;
use crate::limits;
use crate::scrub::Scrubber;
use crate::upstream::{Lease, Pool, Target};

/// Why an answer ends in the middle. The connection ends with it, so that it never looks whole.
#[derive(Debug, Error)]
pub(crate) enum DownloadError {
    #[error("the server broke the answer off")]
    Server(#[source] hyper::Error),
    #[error("the server sends nothing any more")]
    Idle,
}

/// What clients are answered with.
pub(crate) enum Body {
    /// Our own words.
    Whole(Option<Bytes>),
    /// A server's.
    Download(Box<Download>),
    /// That of a server which a sandbox reaches by name.
    Passed(Incoming),
}

/// A server's answer.
pub(crate) struct Download {
    body: Incoming,
    scrubber: Scrubber,
    secrets: Arc<crate::credential::Shown>,
    idle: Idle,
    exchange: Exchange,
    back: Option<Back>,
    ended: bool,
}

/// Where the connection goes when the answer is complete.
pub(super) struct Back {
    pub pool: Arc<Pool>,
    pub target: Arc<Target>,
    pub lease: Lease,
}

impl Download {
    pub(super) fn new(
        body: Incoming,
        secrets: Arc<crate::credential::Shown>,
        exchange: Exchange,
        back: Option<Back>,
    ) -> Self {
        let scrubber = Scrubber::new(&secrets.scrubbed);
        Self {
            body,
            scrubber,
            secrets,
            idle: Idle::new(limits::IDLE_TIMEOUT),
            exchange,
            back,
            ended: false,
        }
    }

    /// A piece as it may be seen.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        self.idle.moved();
        self.exchange.bytes_out += piece.len() as u64;
        self.exchange.counter.see(&piece);
        self.scrubber.pass(piece)
    }

    fn complete(&mut self) {
        self.ended = true;
        self.exchange.outcome = Outcome::Complete;
        if let Some(back) = self.back.take() {
            back.pool.give_back(&back.target, back.lease);
        }
    }

    fn broken(&mut self, why: DownloadError) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        self.ended = true;
        self.exchange.outcome = Outcome::Broken;
        Poll::Ready(Some(Err(why)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, DownloadError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.idle.poll_over(cx));
                return self.broken(DownloadError::Idle);
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return self.broken(DownloadError::Server(error)),
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
                        let secrets: &[Zeroizing<Vec<u8>>] = &self.secrets.scrubbed;
                        crate::headers::strip_answer(&mut trailers, secrets);
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                }
            }
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // An answer without a body, or whose length was announced, may never be asked for its end.
        if !self.ended && self.body.is_end_stream() && self.scrubber.held() == 0 {
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
            Self::Passed(body) => Pin::new(body).poll_frame(cx).map_err(DownloadError::Server),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Download(download) => {
                download.ended || (download.body.is_end_stream() && download.scrubber.held() == 0)
            }
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // Scrubbing changes no length, and nothing is held before the first piece.
            Self::Download(download) => download.body.size_hint(),
            Self::Passed(body) => body.size_hint(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}
