//! A patch for somebody's eyes: nothing in it can move the cursor, hide or turn text.

use std::fmt::Write as _;

use crate::ui::{Stdio, Tone, visible};

/// Bytes of a file as text, with everything that is not plain text made visible.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&visible(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A patch in colours, line by line.
pub(crate) fn patch(bytes: &[u8], io: &Stdio<'_>) -> String {
    let mut text = String::new();
    let mut header = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        header = match line.first() {
            Some(b'd') => true,
            Some(b'@') => false,
            _ => header,
        };
        let tone = match line.first() {
            _ if header => Some(Tone::Strong),
            Some(b'@') => Some(Tone::Place),
            Some(b'+') => Some(Tone::Good),
            Some(b'-') => Some(Tone::Removed),
            _ => None,
        };
        let shown = shown(line.strip_suffix(b"\n").unwrap_or(line));
        text.push_str(&tone.map_or(shown.clone(), |tone| io.tone(tone, &shown)));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        for (bytes, expected) in [
            (&b"plain\ttext"[..], "plain\ttext"),
            (b"\x1b[31mred", "\\u{1b}[31mred"),
            (b"over\rwritten", "over\\u{d}written"),
            ("bidi \u{202e}txt".as_bytes(), "bidi \\u{202e}txt"),
            ("zero\u{200b}width".as_bytes(), "zero\\u{200b}width"),
            ("tag\u{e0041}".as_bytes(), "tag\\u{e0041}"),
            ("soft\u{ad}hyphen".as_bytes(), "soft\\u{ad}hyphen"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("gr\u{fc}n \u{1f980}".as_bytes(), "gr\u{fc}n \u{1f980}"),
        ] {
            assert_eq!(shown(bytes), expected);
        }
    }
}
