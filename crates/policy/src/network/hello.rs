//! The first thing that a TLS client says, and the name of the server in it.
//!
//! Only the name is looked for; everything else passes as it is. A message that cannot be read
//! names nothing, and what names nothing goes nowhere.

use super::host::HostName;

/// More than any client says before it has heard anything.
const LONGEST: usize = 64 * 1024;

/// What the bytes so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The beginning of a greeting.
    Incomplete,
    /// Not TLS.
    Other,
    /// A greeting to the server of this name, or to whoever answers.
    Greeting(Option<HostName>),
    /// It begins like TLS and is not.
    Broken,
}

/// Looks at the first bytes that a client sent.
pub fn read(bytes: &[u8]) -> Hello {
    match bytes {
        // The greeting of SSL 2, which some servers still take, and which has no name in it.
        [0x80..=0xff, _, 1, 0 | 3, ..] => Hello::Broken,
        [] | [0x80..=0xff] | [0x80..=0xff, _] | [0x80..=0xff, _, 1] => Hello::Incomplete,
        [0x16, ..] => match message(bytes) {
            Ok(Some(message)) => name(&message).unwrap_or(Hello::Broken),
            Ok(None) if bytes.len() < LONGEST => Hello::Incomplete,
            _ => Hello::Broken,
        },
        _ => Hello::Other,
    }
}

/// The greeting, put together from its records; `None` while some of it is missing.
fn message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let mut message = Vec::new();
    loop {
        if let [kind, a, b, c, body @ ..] = message.as_slice() {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if *kind != 1 || length > LONGEST {
                return Err(());
            }
            if let Some(body) = body.get(..length) {
                return Ok(Some(body.to_vec()));
            }
        }
        let [kind, major, _, high, low, rest @ ..] = bytes else { return Ok(None) };
        let length = usize::from(*high) << 8 | usize::from(*low);
        if *kind != 0x16 || *major != 3 || length == 0 || length > 1 << 14 {
            return Err(());
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        message.extend_from_slice(payload);
        bytes = &rest[length..];
    }
}

/// What is left of a message, taken piece by piece.
struct Pieces<'b>(&'b [u8]);

impl<'b> Pieces<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (piece, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(piece)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A piece that begins with its own length, of so many bytes.
    fn vector(&mut self, bytes: usize) -> Option<Pieces<'b>> {
        let length = self.number(bytes)?;
        self.take(length).map(Pieces)
    }
}

/// The greeting and the name in it; `None` when it cannot be read.
fn name(message: &[u8]) -> Option<Hello> {
    let mut message = Pieces(message);
    // Version and random bytes, then session, ciphers and compressions: RFC 8446, 4.1.2.
    message.take(34)?;
    message.vector(1)?;
    message.vector(2)?;
    message.vector(1)?;
    if message.0.is_empty() {
        return Some(Hello::Greeting(None));
    }
    let mut extensions = message.vector(2)?;
    let mut found = None;
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number(2)?, extensions.vector(2)?);
        if kind == 0 {
            // Two of them are two answers to one question.
            let name = server_name(content)?;
            if found.replace(name).is_some() {
                return None;
            }
        }
    }
    Some(Hello::Greeting(found))
}

/// RFC 6066, 3: a list that has one entry in practice.
fn server_name(mut content: Pieces<'_>) -> Option<HostName> {
    let mut list = content.vector(2)?;
    let kind = list.number(1)?;
    let name = list.vector(2)?;
    if kind != 0 || !list.0.is_empty() || !content.0.is_empty() {
        return None;
    }
    std::str::from_utf8(name.0).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
