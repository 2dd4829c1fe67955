//! HTTP/1.1 towards servers, on a connection that one request has at a time.
//!
//! The task that waits for the answer drives the connection: an exchange wakes no second task, hands no piece
//! over by a channel, and holds no buffer while nothing comes. hyper's client has a task for each connection.
//!
//! Two builds that differ in this client alone, in turns, by `./dev bench proxy` on two cores:
//!
//! | | this client | `hyper::client::conn::http1` |
//! |---|--:|--:|
//! | stream of 200 events, processor time of the proxy, 1 and 16 at a time | 220 and 190 µs | 580 and 1200 µs |
//! | streams per second, 1 and 16 at a time | 1340 and 2040 | 710 and 650 |
//! | resident with 1000 open streams | 25 MB | 46 MB |
//! | small JSON, processor time of the proxy, 1 to 64 at a time | 17 to 21 µs | 18 to 23 µs |
//!
//! [`head`] and [`decode`] read what servers send, without a connection. `fuzz/fuzz_targets/response.rs` feeds them.

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

/// A connection that no request has.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// Whether it has had a request before.
    used: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, used: false }
    }

    /// Whether the server has neither closed it nor said something that nobody asked for.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut nobody = Context::from_waker(Waker::noop());
        let read = &mut ReadBuf::new(&mut byte);
        Pin::new(&mut self.stream).poll_read(&mut nobody, read).is_pending()
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(self, request: Request<Upload>) -> Result<Response<Reply>, NotSent> {
        let (asked, body) = request.into_parts();
        // The server may close a connection while a request is on its way to it. One that changes nothing may be
        // asked again; whether one that does was heard is not known (RFC 9110, 9.2.2).
        let again = self.used && asked.method.is_safe() && body.is_end_stream();
        let sending = Sending::new(&asked, body);
        let mut wire = Wire { stream: self.stream, buffer: BytesMut::new(), room: SMALLEST };
        let mut call = Call { sending, refused: None, heard: false };
        match poll_fn(|cx| call.poll_head(&mut wire, cx)).await {
            Ok(Head { parts, framing, keep }) => {
                let decoder =
                    Decoder::new(framing.body(asked.method == Method::HEAD, parts.status));
                let keep = keep && !decoder.ends_with_connection();
                Ok(Response::from_parts(parts, Reply { wire, call, decoder, keep }))
            }
            Err(_) if again && !call.heard => {
                let nothing = Upload::memory(Bytes::new(), Arc::default());
                Err(NotSent::Unused(Box::new(Request::from_parts(asked, nothing))))
            }
            Err(error) => Err(NotSent::Failed(error)),
        }
    }
}

/// The first read of an answer, and the most that is read at once.
const SMALLEST: usize = 4 << 10;
const LARGEST: usize = limits::BUFFER;

/// The stream, and what was read from it but not used.
#[derive(Debug)]
struct Wire {
    stream: Stream,
    buffer: BytesMut,
    /// How much the next read asks for. A server that fills it is asked for more.
    room: usize,
}

impl Wire {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.capacity() - self.buffer.len() < self.room / 2 {
            self.buffer.reserve(self.room);
        }
        let asked = self.buffer.capacity() - self.buffer.len();
        let read = pin!(self.stream.read_buf(&mut self.buffer)).poll(cx);
        match &read {
            // A stream may wait for minutes between two words. It waits without memory.
            Poll::Pending if self.buffer.is_empty() => self.buffer = BytesMut::new(),
            Poll::Ready(Ok(count)) if *count == asked => self.room = (self.room * 2).min(LARGEST),
            _ => {}
        }
        read
    }
}

/// A request on its way.
#[derive(Debug)]
struct Call {
    sending: Sending,
    /// Why the server took no more of it. It may have said why before it stopped reading.
    refused: Option<io::Error>,
    /// Whether the server has said anything.
    heard: bool,
}

impl Call {
    /// Sends what can be sent.
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
                // It says that it has begun; the answer follows.
                Some(head) if head.is_interim() => continue,
                Some(head) => return Poll::Ready(Ok(head)),
                None if wire.buffer.len() >= limits::HEADERS => {
                    return Poll::Ready(Err(Malformed("its head is too large").into()));
                }
                None => {}
            }
            match ready!(wire.poll_fill(cx)) {
                Ok(1..) => self.heard = true,
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

/// The body of an answer, with the connection that it comes on.
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
            // A server may answer before it has read everything. The rest is sent for as long as it reads.
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

    /// The connection, when all of both is through and the server keeps it open.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let whole = self.decoder.is_done() && self.call.sending.is_done();
        let clean = self.call.refused.is_none() && self.wire.buffer.is_empty();
        (whole && clean && self.keep).then_some(Connection { stream: self.wire.stream, used: true })
    }
}
