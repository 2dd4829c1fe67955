//! HTTP/1.1 response of a server. The result must not depend on how the response is split. The body must end where RFC
//! 9112 says, and the bytes after it must not be consumed.

use bytes::BytesMut;
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::http::StatusCode;
use sandbox_proxy::upstream::http1::decode::{Decoder, Step};
use sandbox_proxy::upstream::http1::head::{self, Received};

/// Result of reading a response.
#[derive(Debug, PartialEq)]
struct Read {
    status: StatusCode,
    headers: Vec<(String, Vec<u8>)>,
    framing: Received,
    body: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
    whole: bool,
    /// Bytes after a complete response.
    rest: Vec<u8>,
}

/// Runs the target. The first byte selects how the rest is split, and whether the request was `HEAD`.
pub fn response(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let of_head = first & 1 == 1;
    let whole = read(text, text.len().max(1), of_head);
    for size in [1, 2, usize::from(first >> 1) + 1] {
        let cut = read(text, size, of_head);
        assert_eq!(cut, whole, "the result differs with pieces of {size} bytes");
    }
    if let Ok(Some(read)) = whole {
        judge(&read, text, of_head);
    }
}

/// Reads a response in pieces of this size. Returns `None` when the head is incomplete.
fn read(text: &[u8], size: usize, of_head: bool) -> Result<Option<Read>, ()> {
    let (mut buffer, mut pieces) = (BytesMut::new(), text.chunks(size));
    let head = loop {
        match head::take(&mut buffer).map_err(drop)? {
            Some(head) if head.is_interim() => {}
            Some(head) => break head,
            None => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return Ok(None),
            },
        }
    };
    let framing = head.framing.body(of_head, head.parts.status);
    let mut read = Read {
        status: head.parts.status,
        headers: lines(&head.parts.headers),
        framing,
        body: Vec::new(),
        trailers: Vec::new(),
        whole: false,
        rest: Vec::new(),
    };
    let mut decoder = Decoder::new(framing);
    loop {
        match decoder.next(&mut buffer).map_err(drop)? {
            Step::Piece(piece) => read.body.extend_from_slice(&piece),
            Step::Trailers(trailers) => read.trailers = lines(&trailers),
            Step::End => break,
            Step::More => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return Ok(Some(read)),
            },
        }
    }
    read.whole = true;
    read.rest = buffer.to_vec();
    read.rest.extend(pieces.flatten());
    Ok(Some(read))
}

fn lines(headers: &hyper::HeaderMap) -> Vec<(String, Vec<u8>)> {
    let lines = headers.iter();
    lines.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Checks a response that was not refused.
fn judge(read: &Read, text: &[u8], of_head: bool) {
    let has = |wanted: &str| read.headers.iter().any(|(name, _)| name == wanted);
    let two = has(TRANSFER_ENCODING.as_str()) && has(CONTENT_LENGTH.as_str());
    assert!(!two, "the response has two lengths");
    assert!(text.ends_with(&read.rest), "bytes after the response were consumed");
    let bare =
        of_head || read.status.is_informational() || [204, 304].contains(&read.status.as_u16());
    if bare {
        assert!(read.whole && read.body.is_empty(), "the response must not have a body");
        return;
    }
    match read.framing {
        Received::Length(length) => {
            let came = read.body.len() as u64;
            assert!(came <= length && (came == length) == read.whole, "{came} of {length} bytes");
        }
        Received::UntilEnd => assert!(!read.whole && text.ends_with(&read.body)),
        Received::Chunked if read.whole => {
            let after = text.len() - read.rest.len();
            assert!(text[..after].ends_with(b"\n"), "the body ends in the middle of a line");
            assert!(
                simple(&text[..after], &read.body),
                "the chunks differ from those of the simple parser"
            );
        }
        Received::Chunked => {}
    }
    for (name, value) in read.headers.iter().chain(&read.trailers) {
        let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        assert!(!value.iter().any(breaks), "{name} breaks its line");
    }
}

/// Returns true when a simple chunk parser, started at any line, reads the same body.
fn simple(text: &[u8], body: &[u8]) -> bool {
    let starts = (1..text.len()).filter(|at| text[at - 1] == b'\n');
    starts.into_iter().any(|at| chunks(&text[at..]).is_some_and(|read| read == body))
}

fn chunks(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let line = text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]);
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&line[..digits]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        text = &text[end + 1..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(text.get(..size)?);
        text = text.get(size..)?.strip_prefix(b"\r\n")?;
    }
}
