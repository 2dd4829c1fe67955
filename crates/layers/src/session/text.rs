//! Paths as JSON text. `%`, control characters and bytes that are not UTF-8 are written as `%XX`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

/// Encodes a path as text, which [`decode`] reverses.
pub(crate) fn encode(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '%' => text.push_str("%25"),
                letter if letter.is_control() => {
                    let mut bytes = [0; 4];
                    escape(letter.encode_utf8(&mut bytes).as_bytes(), &mut text);
                }
                letter => text.push(letter),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

fn escape(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "%{byte:02X}");
    }
}

/// Decodes a path written by [`encode`]. Returns `None` for other text.
pub(crate) fn decode(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(path))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(&text).ok_or_else(|| serde::de::Error::custom(format!("invalid path `{text}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_bytes_round_trips() {
        for (path, text) in [
            (&b"/home/me/a b:c,d\\e"[..], "/home/me/a b:c,d\\e"),
            (b"/100%", "/100%25"),
            (b"/a\nb\x1b", "/a%0Ab%1B"),
            (b"/\xff\xfe\xc3", "/%FF%FE%C3"),
            ("/grün".as_bytes(), "/grün"),
        ] {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            assert_eq!(encode(&path), text);
            assert_eq!(decode(text), Some(path));
        }
        assert_eq!(decode("%2"), None);
        assert_eq!(decode("%zz"), None);
    }
}
