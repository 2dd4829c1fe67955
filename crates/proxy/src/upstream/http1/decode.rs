//! Decoder for response bodies.

use bytes::{Buf, Bytes, BytesMut};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::head::Received;
use crate::upstream::error::Malformed;

/// Limits of the trailer section.
const MOST_TRAILERS: usize = 32;
const LONGEST_TRAILERS: usize = 16 << 10;
/// Limit of a chunk-size line, with extensions.
const LONGEST_SIZE: usize = 1 << 10;

/// State of the decoder.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Remaining bytes of a body with a known length.
    Length(u64),
    /// Before the size of a chunk.
    Size,
    /// Remaining bytes of a chunk.
    Chunk(u64),
    /// Before the line break after a chunk.
    ChunkEnd,
    /// In the trailer section.
    Trailers,
    /// Body that ends with the connection.
    UntilEnd,
    /// Complete.
    Done,
}

/// Result of a decoding step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes of the body.
    Piece(Bytes),
    /// Trailers.
    Trailers(HeaderMap),
    /// End of the body.
    End,
    /// More input is needed.
    More,
}

impl Decoder {
    /// Creates a decoder for a framing.
    pub fn new(framing: Received) -> Self {
        match framing {
            Received::Length(0) => Self::Done,
            Received::Length(length) => Self::Length(length),
            Received::Chunked => Self::Size,
            Received::UntilEnd => Self::UntilEnd,
        }
    }

    /// Returns true when the body is complete.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }

    /// Returns true when the end of the connection ends the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        *self == Self::UntilEnd
    }

    /// Returns the number of remaining bytes, if known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Done => Some(0),
            _ => None,
        }
    }

    /// Decodes the next step from the buffer.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        loop {
            match self {
                Self::Done => return Ok(Step::End),
                _ if buffer.is_empty() => return Ok(Step::More),
                Self::UntilEnd => return Ok(Step::Piece(buffer.split().freeze())),
                Self::Length(left) => {
                    let piece = up_to(buffer, left);
                    if *left == 0 {
                        *self = Self::Done;
                    }
                    return Ok(Step::Piece(piece));
                }
                Self::Chunk(left) => {
                    let piece = up_to(buffer, left);
                    if *left == 0 {
                        *self = Self::ChunkEnd;
                    }
                    return Ok(Step::Piece(piece));
                }
                Self::ChunkEnd if buffer.len() < 2 => return Ok(Step::More),
                Self::ChunkEnd if buffer.starts_with(b"\r\n") => {
                    buffer.advance(2);
                    *self = Self::Size;
                }
                Self::ChunkEnd => return Err(Malformed("a chunk does not end with a line break")),
                Self::Size => match size(buffer)? {
                    None => return Ok(Step::More),
                    Some(0) => *self = Self::Trailers,
                    Some(size) => *self = Self::Chunk(size),
                },
                Self::Trailers => match trailers(buffer)? {
                    None => return Ok(Step::More),
                    Some(trailers) => {
                        *self = Self::Done;
                        if !trailers.is_empty() {
                            return Ok(Step::Trailers(trailers));
                        }
                    }
                },
            }
        }
    }
}

/// Takes up to `left` bytes from the buffer.
fn up_to(buffer: &mut BytesMut, left: &mut u64) -> Bytes {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    *left -= most as u64;
    buffer.split_to(most).freeze()
}

/// Parses a complete chunk-size line.
fn size(buffer: &mut BytesMut) -> Result<Option<u64>, Malformed> {
    // httparse accepts a line without digits, such as `;x`, as size 0. A response cut there would look complete.
    if !buffer.first().is_some_and(u8::is_ascii_hexdigit) {
        return Err(Malformed("invalid chunk size"));
    }
    match httparse::parse_chunk_size(buffer) {
        // httparse ignores a bare LF in an extension, which other parsers treat as the end of the line.
        Ok(httparse::Status::Complete((end, size)))
            if end <= LONGEST_SIZE && is_one_line(&buffer[..end]) =>
        {
            buffer.advance(end);
            Ok(Some(size))
        }
        Ok(httparse::Status::Partial) if buffer.len() < LONGEST_SIZE => Ok(None),
        _ => Err(Malformed("invalid chunk size")),
    }
}

/// Returns true when the line contains CR and LF only at its end.
fn is_one_line(line: &[u8]) -> bool {
    line.strip_suffix(b"\r\n").is_some_and(|line| memchr::memchr2(b'\r', b'\n', line).is_none())
}

/// Parses a complete trailer section.
fn trailers(buffer: &mut BytesMut) -> Result<Option<HeaderMap>, Malformed> {
    const WRONG: Malformed = Malformed("invalid trailers");
    let mut slots = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    let mut trailers = HeaderMap::new();
    let end = match httparse::parse_headers(buffer, &mut slots) {
        Ok(httparse::Status::Complete((end, found))) if end <= LONGEST_TRAILERS => {
            for header in found {
                let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| WRONG)?;
                let value = HeaderValue::from_bytes(header.value).map_err(|_| WRONG)?;
                trailers.append(name, value);
            }
            end
        }
        Ok(httparse::Status::Partial) if buffer.len() < LONGEST_TRAILERS => return Ok(None),
        _ => return Err(WRONG),
    };
    buffer.advance(end);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a text in pieces of this size. Returns the body, the number of trailers, and true if it was complete.
    fn through(
        framing: Received,
        text: &str,
        size: usize,
    ) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let (mut decoder, mut buffer) = (Decoder::new(framing), BytesMut::new());
        let (mut all, mut trailers) = (Vec::new(), 0);
        for piece in text.as_bytes().chunks(size) {
            buffer.extend_from_slice(piece);
            loop {
                match decoder.next(&mut buffer)? {
                    Step::Piece(piece) => all.extend_from_slice(&piece),
                    Step::Trailers(found) => trailers += found.len(),
                    Step::More | Step::End => break,
                }
            }
        }
        Ok((all, trailers, decoder.is_done() && buffer.is_empty()))
    }

    #[test]
    fn body_does_not_depend_on_how_it_is_split() {
        let chunked = Received::Chunked;
        for (framing, text, body, trailers, whole) in [
            (Received::Length(5), "hello", "hello", 0, true),
            (Received::Length(6), "hello", "hello", 0, false),
            (Received::Length(4), "hello", "hell", 0, false),
            (Received::Length(0), "", "", 0, true),
            (Received::UntilEnd, "hello", "hello", 0, false),
            (chunked, "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n", "hello!", 0, true),
            (chunked, "A\r\n0123456789\r\n0\r\nx-a: 1\r\nx-b: 2\r\n\r\n", "0123456789", 2, true),
            (chunked, "5\r\nhello\r\n", "hello", 0, false),
            (chunked, "5\r\nhel", "hel", 0, false),
            (chunked, "0\r\n\r\nmore", "", 0, false),
        ] {
            for size in 1..40 {
                let got = through(framing, text, size).unwrap();
                assert_eq!(got, (body.as_bytes().to_vec(), trailers, whole), "{size}: {text:?}");
            }
        }
    }

    #[test]
    fn next_refuses_invalid_chunks() {
        for text in [
            "xyz\r\n",
            "-1\r\n",
            ";\r\n\r\n",
            "1;x=y\n1;x=y\r\n!\r\n0\r\n\r\n",
            " \r\n\r\n",
            "5\r\nhello\r\n;x=0\r\n\r\n",
            "\r\n5\r\nhello",
            "1\r\nxy0\r\n\r\n",
            "fffffffffffffffff\r\n",
            "5\r\nhello\n\n0\r\n\r\n",
            "0\r\nno header\r\n\r\n",
        ] {
            for size in [1, 2, 100] {
                assert!(through(Received::Chunked, text, size).is_err(), "{size}: {text:?}");
            }
        }
        let endless = format!("5;{}", "x".repeat(LONGEST_SIZE));
        assert!(through(Received::Chunked, &endless, 100).is_err());
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(LONGEST_SIZE));
        for size in [1, 100, long.len()] {
            assert!(through(Received::Chunked, &long, size).is_err(), "however it is cut");
        }
        let endless = format!("0\r\n{}", "x: y\r\n".repeat(LONGEST_TRAILERS));
        assert!(through(Received::Chunked, &endless, 100).is_err());
    }
}
