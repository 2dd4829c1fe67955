//! Writer for request heads and parser for response heads.

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

/// Limit of headers, the same as hyper's for requests.
const MOST_HEADERS: usize = 100;

/// Framing of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Length,
    Chunked,
}

/// Writes the head of a request. The framing follows from the body, not from the client's headers.
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
        // `TE` is hop-by-hop, so `Connection` must list it (RFC 9110, 10.1.4).
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

/// Head of a response.
#[derive(Debug)]
pub struct Head {
    /// Status and headers.
    pub parts: response::Parts,
    /// Framing of the body.
    pub framing: Received,
    /// True when the server keeps the connection open.
    pub keep: bool,
}

impl Head {
    /// Returns true for an interim response.
    pub fn is_interim(&self) -> bool {
        let status = self.parts.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Framing of a response body (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Known length.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Until the end of the connection.
    UntilEnd,
}

impl Received {
    /// Returns the framing of the actual body. Some responses have none, whatever their headers say.
    #[must_use]
    pub fn body(self, of_head: bool, status: StatusCode) -> Self {
        let none = of_head
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        if none { Self::Length(0) } else { self }
    }
}

/// Takes a complete head out of the buffer.
pub fn take(buffer: &mut BytesMut) -> Result<Option<Head>, Malformed> {
    let Some(end) = end(buffer) else { return Ok(None) };
    parse(&buffer.split_to(end).freeze()).map(Some)
}

/// Returns the end of a head, after an empty line.
fn end(buffer: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', buffer).find_map(|at| match &buffer[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

fn parse(bytes: &Bytes) -> Result<Head, Malformed> {
    const WRONG: Malformed = Malformed("invalid head");
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

/// Returns true when `Connection` lists this word.
fn names(headers: &HeaderMap, word: &[u8]) -> bool {
    let values = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes);
    values
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|found| found.trim_ascii().eq_ignore_ascii_case(word))
}

/// Returns the framing. Refuses ambiguous lengths, which allow response smuggling.
fn framing(headers: &mut HeaderMap, old: bool) -> Result<Received, Malformed> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !chunked || codings.next().is_some() || old || headers.contains_key(CONTENT_LENGTH) {
            return Err(Malformed("unsupported transfer encoding, or ambiguous length"));
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
                // Forward a repeated length only once.
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            Ok(Received::Length(length))
        }
        _ => Err(Malformed("invalid `content-length`")),
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
    fn head_gives_the_framing_or_is_refused() {
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
    fn take_waits_for_a_complete_head_and_leaves_the_rest() {
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
