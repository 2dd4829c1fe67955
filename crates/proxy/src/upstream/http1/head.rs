//! Heads: a request's as it is written, an answer's as it is read.

use std::mem::MaybeUninit;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::Body as _;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
};
use hyper::http::{request, response};
use hyper::{Response, StatusCode, Version};

use crate::upload::Upload;
use crate::upstream::error::Malformed;

/// As many as hyper takes from a client.
const MOST_HEADERS: usize = 100;

/// How a request's body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Length,
    Chunked,
}

/// Writes the head of a request. Its body is framed by what it is, not by what the client said of it.
pub(super) fn write(head: &request::Parts, body: &Upload) -> (BytesMut, Sent) {
    let mut text = BytesMut::with_capacity(1 << 10);
    text.put_slice(head.method.as_str().as_bytes());
    text.put_u8(b' ');
    text.put_slice(head.uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes());
    text.put_slice(b" HTTP/1.1\r\n");
    for (name, value) in &head.headers {
        if *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING {
            line(&mut text, name.as_str(), value.as_bytes());
        }
    }
    if head.headers.contains_key(TE) {
        // It is for this connection alone (RFC 9110, 10.1.4).
        line(&mut text, "connection", b"te");
    }
    let framing = if let Some(length) = body.size_hint().exact() {
        if length > 0 || head.headers.contains_key(CONTENT_LENGTH) {
            line(&mut text, "content-length", length.to_string().as_bytes());
        }
        Sent::Length
    } else {
        line(&mut text, "transfer-encoding", b"chunked");
        Sent::Chunked
    };
    text.put_slice(b"\r\n");
    (text, framing)
}

fn line(text: &mut BytesMut, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        text.put_slice(part);
    }
}

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    /// Status and headers.
    pub parts: response::Parts,
    /// The form of the body.
    pub framing: Received,
    /// Set when the server keeps the connection open.
    pub keep: bool,
}

impl Head {
    /// Returns whether it is only a note before the answer.
    pub fn is_interim(&self) -> bool {
        let status = self.parts.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// The form of a body, as its head announces it (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Length(u64),
    /// Pieces, each with its size.
    Chunked,
    /// Everything up to the end of the connection.
    UntilEnd,
}

impl Received {
    /// Returns what there is to read: some answers have no body whatever they say.
    #[must_use]
    pub fn body(self, of_head: bool, status: StatusCode) -> Self {
        let none = of_head
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        if none { Self::Length(0) } else { self }
    }
}

/// Takes a head out of the buffer, if it is there as a whole.
pub fn take(buffer: &mut BytesMut) -> Result<Option<Head>, Malformed> {
    let Some(end) = end(buffer) else { return Ok(None) };
    parse(&buffer.split_to(end).freeze()).map(Some)
}

/// Where a head ends: behind an empty line.
fn end(buffer: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', buffer).find_map(|at| match &buffer[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

fn parse(bytes: &Bytes) -> Result<Head, Malformed> {
    const WRONG: Malformed = Malformed("its head cannot be read");
    let mut slots = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut found = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut found, bytes, &mut slots)
        .map_err(|_| WRONG)?;
    if status.is_partial() {
        return Err(WRONG);
    }
    let mut headers = HeaderMap::with_capacity(found.headers.len());
    for header in found.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| WRONG)?;
        let value = bytes.slice_ref(header.value);
        headers.append(name, HeaderValue::from_maybe_shared(value).map_err(|_| WRONG)?);
    }
    let old = found.version != Some(1);
    let framing = framing(&mut headers, old)?;
    let keep = !old && !names(&headers, b"close");
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = StatusCode::from_u16(found.code.unwrap_or(0)).map_err(|_| WRONG)?;
    parts.version = Version::HTTP_11;
    parts.headers = headers;
    Ok(Head { parts, framing, keep })
}

/// Whether `Connection` has this word.
fn names(headers: &HeaderMap, word: &[u8]) -> bool {
    let values = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes);
    values
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|found| found.trim_ascii().eq_ignore_ascii_case(word))
}

/// Two readers must not see two lengths: what can be read in two ways is no answer.
fn framing(headers: &mut HeaderMap, old: bool) -> Result<Received, Malformed> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !chunked || codings.next().is_some() || old || headers.contains_key(CONTENT_LENGTH) {
            return Err(Malformed("its body has an unknown coding, or two lengths"));
        }
        return Ok(Received::Chunked);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(length);
    let Some(first) = lengths.next() else { return Ok(Received::UntilEnd) };
    let (others, same) =
        lengths.fold((0, true), |(count, same), other| (count + 1, same && other == first));
    match first {
        Some(length) if same => {
            if others > 0 {
                // What was said twice is passed on once.
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            Ok(Received::Length(length))
        }
        _ => Err(Malformed("its length is none")),
    }
}

fn length(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, Malformed> {
        take(&mut BytesMut::from(text))
    }

    #[test]
    fn head_says_how_long_the_body_is_or_is_refused() {
        let of = |headers: &str| {
            let read = read(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"));
            read.ok().map(|head| head.unwrap()).map(|head| (head.framing, head.keep))
        };
        for (headers, expected) in [
            ("content-length: 5\r\n", Some((Received::Length(5), true))),
            ("content-length: 5\r\ncontent-length: 5\r\n", Some((Received::Length(5), true))),
            ("content-length: 5\r\nConnection: x, Close\r\n", Some((Received::Length(5), false))),
            ("transfer-encoding: Chunked\r\n", Some((Received::Chunked, true))),
            ("", Some((Received::UntilEnd, true))),
            ("content-length: 5\r\ncontent-length: 6\r\n", None),
            ("content-length: 5, 5\r\n", None),
            ("content-length: +5\r\n", None),
            ("content-length: \r\n", None),
            ("content-length: 99999999999999999999\r\n", None),
            ("content-length: 5\r\ntransfer-encoding: chunked\r\n", None),
            ("transfer-encoding: gzip, chunked\r\n", None),
            ("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", None),
            ("x y: z\r\n", None),
            ("x: a\r\n folded\r\n", None),
        ] {
            assert_eq!(of(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn head_is_taken_when_it_is_whole_and_leaves_what_follows() {
        let text = "HTTP/1.1 404 Not Found\r\nx-a: 1\r\ncontent-length: 3\r\n\r\nabc";
        for end in 0..text.len() - 3 {
            assert!(read(&text[..end]).unwrap().is_none(), "{end}");
        }
        let mut buffer = BytesMut::from(text);
        let head = take(&mut buffer).unwrap().unwrap();
        assert_eq!(
            (head.parts.status.as_u16(), &head.parts.headers["x-a"]),
            (404, &"1".parse().unwrap())
        );
        assert_eq!(&buffer[..], b"abc");
        assert!(
            read("HTTP/1.0 200 OK\ncontent-length: 1\n\n").unwrap().is_some_and(|head| !head.keep)
        );
        assert!(read("HTTP/1.1 100 Continue\r\n\r\n").unwrap().unwrap().is_interim());
        for nonsense in ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "\r\n\r\n\0\n\n"] {
            assert!(read(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
