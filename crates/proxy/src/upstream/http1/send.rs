//! Writer for requests.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::body::Body as _;
use hyper::http::request;
use tokio::io::AsyncWrite;

use super::CallError;
use super::head::{self, Sent};
use crate::upload::Upload;
use crate::upstream::dial::Stream;

/// Request in progress: buffers in the order of writing, and the rest of the body.
#[derive(Debug)]
pub(super) struct Sending {
    before: BytesMut,
    piece: Bytes,
    after: &'static [u8],
    framing: Sent,
    body: Option<Box<Upload>>,
    flushed: bool,
}

/// Pieces up to this size are copied into the buffer before them.
const SMALL: usize = 2 << 10;

impl Sending {
    pub(super) fn new(head: &request::Parts, body: Upload) -> Self {
        let (before, framing) = head::write(head, &body);
        let body = (!body.is_end_stream()).then(|| Box::new(body));
        Self { before, piece: Bytes::new(), after: b"", framing, body, flushed: false }
    }

    pub(super) fn is_done(&self) -> bool {
        self.flushed
    }

    /// Writes while there is data and the server accepts it.
    pub(super) fn poll(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        while !self.flushed {
            // Poll the body first, so that a small one is sent together with the head.
            let body = self.poll_piece(cx)?;
            if self.is_empty() {
                ready!(Pin::new(&mut *stream).poll_flush(cx))?;
                ready!(body);
                self.flushed = true;
            } else if ready!(self.poll_write(stream, cx))? == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.piece.is_empty() && self.after.is_empty()
    }

    /// Queues the next piece of the body after the last one was written. Pending while the body has no data.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        while self.piece.is_empty()
            && self.after.is_empty()
            && let Some(body) = &mut self.body
        {
            if let Some(frame) = ready!(Pin::new(&mut **body).poll_frame(cx)) {
                let piece = frame?.into_data().unwrap_or_default();
                if body.is_end_stream() && self.framing == Sent::Length {
                    self.body = None;
                }
                self.queue(piece);
            } else {
                self.body = None;
                if self.framing == Sent::Chunked {
                    self.before.put_slice(b"0\r\n\r\n");
                }
            }
            if !self.is_empty() && self.body.is_some() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn queue(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if self.framing == Sent::Chunked {
            self.before.put_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            self.after = b"\r\n";
        }
        if piece.len() <= SMALL {
            self.before.put_slice(&piece);
            self.before.put_slice(std::mem::take(&mut self.after));
        } else {
            self.piece = piece;
        }
    }

    fn poll_write(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(stream);
        let count = if self.piece.is_empty() && self.after.is_empty() {
            ready!(stream.poll_write(cx, &self.before))?
        } else {
            let parts = [&self.before[..], &self.piece[..], self.after].map(IoSlice::new);
            ready!(stream.poll_write_vectored(cx, &parts))?
        };
        let mut left = count;
        let mut written = |length: usize| {
            let part = left.min(length);
            left -= part;
            part
        };
        self.before.advance(written(self.before.len()));
        self.piece.advance(written(self.piece.len()));
        self.after = &self.after[written(self.after.len())..];
        if self.is_empty() {
            // Free the buffer while waiting for the next piece.
            self.before = BytesMut::new();
        }
        Poll::Ready(Ok(count))
    }
}
