//! HTTP/1.1 client. A connection serves one request at a time.
//!
//! The task that waits for the response drives the connection. An exchange needs no second task, no channel, and no
//! buffer while it is idle. hyper's client uses a task for each connection.
//!
//! Two builds that differ only in the client, measured in turns with `./dev bench proxy` on two cores:
//!
//! | | this client | `hyper::client::conn::http1` |
//! |---|--:|--:|
//! | stream of 200 events, CPU time of the proxy, 1 and 16 concurrent | 220 and 190 µs | 580 and 1200 µs |
//! | streams per second, 1 and 16 concurrent | 1340 and 2040 | 710 and 650 |
//! | resident with 1000 open streams | 25 MB | 46 MB |
//! | small JSON, CPU time of the proxy, 1 to 64 concurrent | 17 to 21 µs | 18 to 23 µs |
//!
//! [`head`] and [`decode`] parse bytes without a connection. `fuzz/fuzz_targets/response.rs` tests them.

pub mod head;
mod send;
pub mod decode;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::{Method, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::dial::Stream;
use super::error::{CallError, Malformed, NotSent};
use crate::limits;
use crate::upload::{Upload, UploadError};
use decode::{Decoder, Step};
use head::Head;
use send::Sending;

/// Connection without a request in progress.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// True when it has served a request before.
    used: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, used: false }
    }

    /// Returns true when the server has not closed the connection and has sent no unexpected data.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut unwoken = Context::from_waker(Waker::noop());
        let read = &mut ReadBuf::new(&mut byte);
        Pin::new(&mut self.stream).poll_read(&mut unwoken, read).is_pending()
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(self, request: Request<Upload>) -> Result<Response<Reply>, NotSent> {
        let (head, body) = request.into_parts();
        // The server may close a reused connection while a request is on its way. Only safe requests are retried,
        // because it is unknown whether the server has processed the request (RFC 9110, 9.2.2).
        let again = self.used && head.method.is_safe() && body.is_end_stream();
        let sending = Sending::new(&head, body);
        let mut wire = Wire { stream: self.stream, buffer: BytesMut::new(), read_size: SMALLEST };
        let mut call = Call { sending, refused: None, received: false };
        match poll_fn(|cx| call.poll_head(&mut wire, cx)).await {
            Ok(Head { parts, framing, keep }) => {
                let decoder = Decoder::new(framing.body(head.method == Method::HEAD, parts.status));
                let keep = keep && !decoder.ends_with_connection();
                Ok(Response::from_parts(parts, Reply { wire, call, decoder, keep }))
            }
            Err(_) if again && !call.received => {
                let nothing = Upload::memory(Bytes::new(), Arc::default());
                Err(NotSent::Unused(Box::new(Request::from_parts(head, nothing))))
            }
            Err(error) => Err(NotSent::Failed(error)),
        }
    }
}

/// Size of the first read of a response, and the limit of later reads.
const SMALLEST: usize = 4 << 10;
const LARGEST: usize = limits::BUFFER;

/// Stream with a read buffer.
#[derive(Debug)]
struct Wire {
    stream: Stream,
    buffer: BytesMut,
    /// Size of the next read. It doubles when a read fills the buffer.
    read_size: usize,
}

impl Wire {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.capacity() - self.buffer.len() < self.read_size / 2 {
            self.buffer.reserve(self.read_size);
        }
        let free = self.buffer.capacity() - self.buffer.len();
        let read = pin!(self.stream.read_buf(&mut self.buffer)).poll(cx);
        match &read {
            // A stream may be idle for minutes. Free the buffer meanwhile.
            Poll::Pending if self.buffer.is_empty() => self.buffer = BytesMut::new(),
            Poll::Ready(Ok(count)) if *count == free => {
                self.read_size = (self.read_size * 2).min(LARGEST);
            }
            _ => {}
        }
        read
    }
}

/// A request in progress.
#[derive(Debug)]
struct Call {
    sending: Sending,
    /// Error that stopped the upload. The server may have sent a response before it stopped reading.
    refused: Option<io::Error>,
    /// True when the server has sent anything.
    received: bool,
}

impl Call {
    /// Sends as much as possible.
    fn poll_send(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Result<(), UploadError> {
        if self.refused.is_some() {
            return Ok(());
        }
        match self.sending.poll(&mut wire.stream, cx) {
            Poll::Ready(Err(CallError::Upload(why))) => return Err(why),
            Poll::Ready(Err(CallError::Io(error))) => self.refused = Some(error),
            _ => {}
        }
        Ok(())
    }

    fn poll_head(
        &mut self,
        wire: &mut Wire,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, CallError>> {
        self.poll_send(wire, cx)?;
        loop {
            match head::take(&mut wire.buffer)? {
                // An interim response. The final one follows.
                Some(head) if head.is_interim() => continue,
                Some(head) => return Poll::Ready(Ok(head)),
                None if wire.buffer.len() >= limits::HEADERS => {
                    return Poll::Ready(Err(Malformed("the head is too large").into()));
                }
                None => {}
            }
            match ready!(wire.poll_fill(cx)) {
                Ok(1..) => self.received = true,
                Ok(_) => {
                    return Poll::Ready(Err(self
                        .refused
                        .take()
                        .map_or(CallError::Closed, CallError::Io)));
                }
                Err(error) => return Poll::Ready(Err(self.refused.take().unwrap_or(error).into())),
            }
        }
    }
}

/// Body of a response, with its connection.
#[derive(Debug)]
pub(crate) struct Reply {
    wire: Wire,
    call: Call,
    decoder: Decoder,
    keep: bool,
}

impl Reply {
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        if !self.call.sending.is_done() {
            // A server may respond before it has read the whole request. Continue to send while it reads.
            if self.call.poll_send(&mut self.wire, cx).is_err() {
                self.keep = false;
            }
        }
        loop {
            match self.decoder.next(&mut self.wire.buffer) {
                Ok(Step::Piece(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Ok(Step::Trailers(trailers)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Step::End) => return Poll::Ready(None),
                Ok(Step::More) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(self.wire.poll_fill(cx)) {
                Ok(1..) => {}
                Ok(_) if self.decoder.ends_with_connection() => self.decoder = Decoder::Done,
                Ok(_) => return Poll::Ready(Some(Err(CallError::Closed))),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.decoder.is_done()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.decoder.left().map_or_else(SizeHint::new, SizeHint::with_exact)
    }

    /// Returns the connection if the exchange is complete and the server keeps it open.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let whole = self.decoder.is_done() && self.call.sending.is_done();
        let clean = self.call.refused.is_none() && self.wire.buffer.is_empty();
        (whole && clean && self.keep).then_some(Connection { stream: self.wire.stream, used: true })
    }
}
