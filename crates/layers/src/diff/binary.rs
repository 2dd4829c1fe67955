//! Git's form for content that is no text: `literal`, packed and in letters.

use miniz_oxide::deflate::compress_to_vec_zlib;
use sha1::{Digest, Sha1};

const LETTERS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Bytes per line; the first letter of a line says how many.
const PER_LINE: usize = 52;

/// The hunk that makes this content, whatever was there before.
pub(crate) fn literal(content: &[u8]) -> String {
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

/// Four bytes as five letters; missing ones count as zero.
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

/// The name git gives this content.
pub(crate) fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    sandbox_linux::hex::encode(&hash.finalize())
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
}
