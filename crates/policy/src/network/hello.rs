//! Parser for the TLS `ClientHello` and the server name in it.
//!
//! Only the name is extracted; all other fields are ignored. A message that cannot be parsed has no name, and a connection
//! without a name is refused.

use super::host::HostName;

/// Longest `ClientHello` that is accepted. Real ones are much shorter.
const LONGEST: usize = 64 * 1024;

/// State of the parser after the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The beginning of a `ClientHello`.
    Incomplete,
    /// Not TLS.
    Other,
    /// A `ClientHello`, with the name of the server if it has one.
    Greeting(Option<HostName>),
    /// Malformed: it begins like TLS.
    Broken,
}

/// Parses the first bytes that a client sent.
pub fn read(bytes: &[u8]) -> Hello {
    match bytes {
        // The `ClientHello` of SSL 2, which some servers still accept. It cannot carry a name.
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

/// Assembles the `ClientHello` from its records. Returns `None` while it is incomplete.
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

/// The rest of a message that is being parsed.
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

    /// Takes a vector whose length is encoded in this number of bytes.
    fn vector(&mut self, bytes: usize) -> Option<Pieces<'b>> {
        let length = self.number(bytes)?;
        self.take(length).map(Pieces)
    }
}

/// Parses the body of a `ClientHello`. Returns `None` when it is malformed.
fn name(message: &[u8]) -> Option<Hello> {
    let mut message = Pieces(message);
    // Version and random bytes, then session id, cipher suites and compression methods: RFC 8446, 4.1.2.
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
            // With two names, the proxy and the server could each pick a different one.
            let name = server_name(content)?;
            if found.replace(name).is_some() {
                return None;
            }
        }
    }
    Some(Hello::Greeting(found))
}

/// Parses the `server_name` extension (RFC 6066, 3): a list that has one entry in practice.
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
