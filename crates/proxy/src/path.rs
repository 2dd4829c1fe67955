//! Request paths. They are forwarded byte for byte, or refused.
//!
//! Decoding and re-encoding a path can change its meaning, so it is never rewritten. A path that servers may interpret
//! in two ways is refused: dot segments always, in every encoding, and other cases where rules decide by path.

use thiserror::Error;

/// Reason to refuse a path.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It has dot segments.
    #[error("the path contains a `.` or `..` segment")]
    Dots,
    /// It has characters where some servers cut the path.
    #[error("the path contains a backslash, a control character or an encoded NUL")]
    Characters,
    /// It has an invalid escape.
    #[error("the path contains a `%` without two hexadecimal digits")]
    Encoding,
    /// Servers disagree about its meaning.
    #[error(
        "the path contains `//`, `;`, or an encoded slash or percent sign, which `routes` do not allow"
    )]
    Ambiguous,
}

/// Layers of encoding to decode. Some servers have proxies in front of them that decode as well.
const LAYERS: usize = 4;

/// Checks a raw path.
pub fn check(raw: &str) -> Result<(), PathError> {
    if raw.bytes().any(|byte| byte == b'\\' || byte.is_ascii_control()) {
        return Err(PathError::Characters);
    }
    let mut seen = raw.as_bytes().to_vec();
    for layer in 0..LAYERS {
        if has_dot_segment(&seen) {
            return Err(PathError::Dots);
        }
        let decoded = decode(&seen);
        if layer == 0 && (decoded.broken || decoded.bytes.contains(&0)) {
            return Err(if decoded.broken { PathError::Encoding } else { PathError::Characters });
        }
        if decoded.bytes == seen {
            return Ok(());
        }
        seen = decoded.bytes;
    }
    // No client encodes a path this often.
    Err(PathError::Encoding)
}

/// Returns the decoded path for rules. Refuses paths that servers may interpret differently.
pub fn plain(raw: &str) -> Result<String, PathError> {
    check(raw)?;
    let decoded = decode(raw.as_bytes());
    let encoded_separator = raw.to_ascii_lowercase();
    let ambiguous = raw.contains("//")
        || decoded.bytes.contains(&b';')
        || ["%2f", "%5c", "%25"].iter().any(|code| encoded_separator.contains(code));
    if ambiguous {
        return Err(PathError::Ambiguous);
    }
    String::from_utf8(decoded.bytes).map_err(|_| PathError::Encoding)
}

/// Decodes one layer of percent-encoding. Returns `None` when there is none.
pub(crate) fn decode_text(text: &str) -> Option<String> {
    let decoded = decode(text.as_bytes());
    (decoded.bytes != text.as_bytes()).then(|| String::from_utf8_lossy(&decoded.bytes).into_owned())
}

/// Result of [`decode`].
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    /// True when a `%` is not followed by two hexadecimal digits.
    broken: bool,
}

/// Decodes one layer of percent-encoding.
pub(crate) fn decode(raw: &[u8]) -> Decoded {
    let (mut bytes, mut broken, mut at) = (Vec::with_capacity(raw.len()), false, 0);
    while let Some(&byte) = raw.get(at) {
        let value = (byte == b'%').then(|| hex(raw.get(at + 1)).zip(hex(raw.get(at + 2))));
        match value {
            Some(Some((high, low))) => {
                bytes.push(high << 4 | low);
                at += 3;
            }
            other => {
                broken |= other.is_some();
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Decoded { bytes, broken }
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    char::from(*digit?).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Returns true for paths with dot segments. `..;x` counts, because some servers strip parameters first.
fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or(segment);
        name == b"." || name == b".."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn path_is_refused_when_it_could_climb_or_be_cut() {
        for (raw, expected) in [
            ("/v1/messages", Ok(())),
            ("/", Ok(())),
            ("/v1/models/org%2Fname", Ok(())),
            ("/a%3Fb%23c", Ok(())),
            ("/v1/...", Ok(())),
            ("/v1/.well-known/..a", Ok(())),
            ("/caf%C3%A9", Ok(())),
            ("/100%25", Ok(())),
            ("/..", Err(PathError::Dots)),
            ("/a/../b", Err(PathError::Dots)),
            ("/a/./b", Err(PathError::Dots)),
            ("/a/%2e%2E/b", Err(PathError::Dots)),
            ("/a/.%2e", Err(PathError::Dots)),
            ("/a/..%2fb", Err(PathError::Dots)),
            ("/a/..%5Cb", Err(PathError::Dots)),
            ("/a/%252e%252e/b", Err(PathError::Dots)),
            ("/a/%25252e./b", Err(PathError::Dots)),
            ("/a/..;x=1/b", Err(PathError::Dots)),
            ("/a\\b", Err(PathError::Characters)),
            ("/a%00b", Err(PathError::Characters)),
            ("/a%zz", Err(PathError::Encoding)),
            ("/a%2", Err(PathError::Encoding)),
        ] {
            assert_eq!(check(raw), expected, "{raw}");
        }
    }

    #[test]
    fn plain_path_is_refused_when_servers_could_disagree() {
        for (raw, expected) in [
            ("/v1/messages", Ok("/v1/messages")),
            ("/v1/%6Dessages", Ok("/v1/messages")),
            ("/v1//messages", Err(PathError::Ambiguous)),
            ("/v1/messages;x", Err(PathError::Ambiguous)),
            ("/v1/messages%3bx", Err(PathError::Ambiguous)),
            ("/v1%2Ffiles", Err(PathError::Ambiguous)),
            ("/v1/%2566iles", Err(PathError::Ambiguous)),
            ("/v1/%ff", Err(PathError::Encoding)),
            ("/v1/..", Err(PathError::Dots)),
        ] {
            assert_eq!(plain(raw).as_deref().map_err(|error| *error), expected, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn no_decoding_of_an_accepted_path_has_dots(raw in "(/|%2[eEfF]|%25|\\.|;|[a-z%2e]){0,12}") {
            if check(&raw).is_ok() {
                let mut seen = raw.into_bytes();
                for _ in 0..6 {
                    prop_assert!(!has_dot_segment(&seen));
                    seen = decode(&seen).bytes;
                }
            }
        }
    }
}
