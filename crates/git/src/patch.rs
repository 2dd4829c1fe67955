//! Parts of git's patch format: quoted names and binary contents.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use miniz_oxide::deflate::compress_to_vec_zlib;
use sha1::{Digest, Sha1};

/// Letters of base 85.
const LETTERS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Maximum number of bytes per line; the first letter of a line encodes the count.
const PER_LINE: usize = 52;

/// Returns a binary hunk that creates this content, regardless of the old content.
pub fn literal(content: &[u8]) -> String {
    let packed = compress_to_vec_zlib(content, 6);
    let mut text = format!("GIT binary patch\nliteral {}\n", content.len());
    for line in packed.chunks(PER_LINE) {
        text.push(char::from(length_letter(line.len())));
        line.chunks(4).for_each(|four| encode(four, &mut text));
        text.push('\n');
    }
    text.push('\n');
    text
}

#[allow(clippy::cast_possible_truncation, reason = "a line holds at most 52 bytes")]
fn length_letter(len: usize) -> u8 {
    if len <= 26 { b'A' + len as u8 - 1 } else { b'a' + len as u8 - 27 }
}

/// Encodes four bytes as five letters. Missing bytes count as zero.
fn encode(four: &[u8], text: &mut String) {
    let mut word = [0; 4];
    word[..four.len()].copy_from_slice(four);
    let mut rest = u32::from_be_bytes(word) as usize;
    let mut letters = [0; 5];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[rest % 85];
        rest /= 85;
    }
    text.extend(letters.map(char::from));
}

/// Returns the object name of this content.
pub fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    sandbox_linux::hex::encode(&hash.finalize())
}

/// Returns a name behind a prefix such as `a/`, in quotes and with escapes where git would do so.
pub fn quoted(prefix: &str, path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let plain = |byte: &u8| matches!(byte, 0x20..0x7f) && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(plain) {
        return format!("{prefix}{}", path.display());
    }
    let escaped: String = bytes.iter().map(|byte| escape(*byte)).collect();
    format!("\"{prefix}{escaped}\"")
}

fn escape(byte: u8) -> String {
    match byte {
        0x07 => "\\a".into(),
        0x08 => "\\b".into(),
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        0x0b => "\\v".into(),
        0x0c => "\\f".into(),
        b'\r' => "\\r".into(),
        b'"' => "\\\"".into(),
        b'\\' => "\\\\".into(),
        0x20..0x7f => char::from(byte).to_string(),
        other => format!("\\{other:03o}"),
    }
}

/// Returns a name for a line `---` or `+++`. A tab marks the end of a name with a space.
pub fn header(prefix: &str, path: &Path) -> String {
    let name = quoted(prefix, path);
    if name.starts_with('"') || !name.contains(' ') { name } else { format!("{name}\t") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn letters_are_those_of_git() {
        let mut text = String::new();
        encode(&[0, 0, 0, 1], &mut text);
        encode(&[0xff; 4], &mut text);
        assert_eq!(text, "00001|NsC0");
    }

    #[test]
    fn names_are_quoted_when_git_quotes_them() {
        for (name, expected) in [
            ("a", "a/a"),
            ("a b", "a/a b"),
            ("tab\there", "\"a/tab\\there\""),
            ("quo\"te", "\"a/quo\\\"te\""),
            ("back\\slash", "\"a/back\\\\slash\""),
            ("\u{fc}", "\"a/\\303\\274\""),
            ("\u{1b}[31m", "\"a/\\033[31m\""),
        ] {
            assert_eq!(quoted("a/", Path::new(name)), expected);
        }
        assert_eq!(header("b/", Path::new("a b")), "b/a b\t");
    }
}
