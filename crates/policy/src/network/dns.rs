//! DNS messages of the sandbox's name server.
//!
//! The server resolves allowed names to loopback, where the proxy listens. It forwards no query: the content of a
//! question never leaves the sandbox, so a process cannot use DNS to send data out.

use std::net::Ipv4Addr;

use super::host::{HostError, HostName};

/// Time to live of an answer, in seconds. Answers never change during a run.
const LIFETIME: u32 = 60;
/// Query type `A`, for an IPv4 address.
const ADDRESS: u16 = 1;
/// Compression pointer to the name in the question, which always has this offset: RFC 1035, 4.1.4.
const NAME_POINTER: [u8; 2] = [0xc0, 12];

/// A query with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'p> {
    id: [u8; 2],
    wants_recursion: bool,
    /// Name, type and class, as sent.
    bytes: &'p [u8],
    kind: u16,
    /// The name in question.
    pub name: Result<HostName, HostError>,
}

/// Result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name resolves to loopback.
    Here,
    /// The name does not exist.
    Unknown,
}

/// Parses a query. Returns `None` for malformed messages, and for messages that resolvers do not send.
pub fn read(packet: &[u8]) -> Option<Question<'_>> {
    let [id0, id1, flags, _, 0, 1, 0, 0, 0, 0, 0, _, rest @ ..] = packet else { return None };
    // A response, or an operation other than a standard query.
    if flags & 0xf8 != 0 {
        return None;
    }
    let (labels, length) = labels(rest)?;
    let bytes = rest.get(..length + 4)?;
    let kind = u16::from_be_bytes([bytes[length], bytes[length + 1]]);
    let name = std::str::from_utf8(&labels).map_err(|_| HostError::NotAscii).and_then(str::parse);
    Some(Question { id: [*id0, *id1], wants_recursion: flags & 1 != 0, bytes, kind, name })
}

/// Returns the name with dots, and its length in the message.
fn labels(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut at = 0;
    loop {
        // A greater length would be a compression pointer, which a question never contains.
        let length = usize::from(*bytes.get(at).filter(|length| **length < 64)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        let label = bytes.get(at..at + length)?;
        // A dot inside a label would look like a separator.
        if label.contains(&b'.') || name.len() > 255 {
            return None;
        }
        name.extend_from_slice(label);
        at += length;
    }
}

impl Question<'_> {
    /// Builds the response.
    pub fn answer(&self, answer: Answer) -> Vec<u8> {
        let has_address = answer == Answer::Here && self.kind == ADDRESS;
        let code = if answer == Answer::Unknown { 3 } else { 0 };
        let flags = [0x80 | u8::from(self.wants_recursion), 0x80 | code];
        let counts = [0, 1, 0, u8::from(has_address), 0, 0, 0, 0];
        let mut message = [&self.id[..], &flags, &counts, self.bytes].concat();
        if has_address {
            message.extend(NAME_POINTER);
            message.extend([0, 1, 0, 1]);
            message.extend(LIFETIME.to_be_bytes());
            message.extend([0, 4]);
            message.extend(Ipv4Addr::LOCALHOST.octets());
        }
        message
    }
}

#[cfg(test)]
mod tests;
