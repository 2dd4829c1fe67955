//! Questions to the sandbox's own name server, and its answers.
//!
//! It says of the names that are allowed that they are here, on loopback, where the way out is. It
//! asks nobody: what stands in a question never leaves the sandbox.

use std::net::Ipv4Addr;

use super::host::{HostError, HostName};

/// Seconds for which an answer holds; it never changes during a run.
const LIFETIME: u32 = 60;
/// The kind of question that asks for an address of IPv4.
const ADDRESS: u16 = 1;
/// Where the name of the question stands in every message, as a pointer: RFC 1035, 4.1.4.
const NAME_POINTER: [u8; 2] = [0xc0, 12];

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'p> {
    id: [u8; 2],
    wants_recursion: bool,
    /// Name, kind and class, as they were sent.
    bytes: &'p [u8],
    kind: u16,
    /// The name that it is about.
    pub name: Result<HostName, HostError>,
}

/// What there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name is here.
    Here,
    /// There is no such name.
    Unknown,
}

/// Reads a question; `None` for what is none, or not one that anybody asks.
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

/// The name with dots, and how many bytes it takes in the message.
fn labels(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut at = 0;
    loop {
        // A longer length would be a pointer, which a question has no use for.
        let length = usize::from(*bytes.get(at).filter(|length| **length < 64)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        let label = bytes.get(at..at + length)?;
        // A dot inside of a part would look like a border between two.
        if label.contains(&b'.') || name.len() > 255 {
            return None;
        }
        name.extend_from_slice(label);
        at += length;
    }
}

impl Question<'_> {
    /// The message that answers it.
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
