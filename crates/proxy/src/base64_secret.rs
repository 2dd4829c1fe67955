//! Base64 of secrets. Buffers are zeroed on drop.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, general_purpose};
use zeroize::Zeroizing;

/// Accepts any padding and trailing bits, because clients differ.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, general_purpose::NO_PAD.with_decode_allow_trailing_bits(true));

/// Encodes bytes in the standard alphabet, with padding.
pub(crate) fn encode(bytes: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(bytes.len().div_ceil(3) * 4));
    general_purpose::STANDARD.encode_string(bytes, &mut text);
    text
}

/// Decodes the standard or the URL-safe alphabet, with or without padding.
pub(crate) fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let standard = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    };
    let letters = text.trim_end_matches('=').bytes().map(standard);
    let letters = Zeroizing::new(letters.collect::<Vec<_>>());
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    LENIENT.decode_vec(letters.as_slice(), &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_matches_rfc_4648() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(plain.as_bytes()).as_str(), encoded);
        }
    }

    #[test]
    fn decode_accepts_both_alphabets_and_any_padding() {
        for (encoded, plain) in [
            ("Zm9v", Some(&b"foo"[..])),
            ("Zm8=", Some(b"fo")),
            ("Zg", Some(b"f")),
            ("Zh", Some(b"f")),
            ("", Some(b"")),
            ("-_8", Some(b"\xfb\xff")),
            ("+/8=", Some(b"\xfb\xff")),
            ("Z", None),
            ("Zm9v!", None),
        ] {
            assert_eq!(decode(encoded).as_ref().map(|bytes| bytes.as_slice()), plain, "{encoded}");
        }
    }
}
