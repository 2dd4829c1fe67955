//! Terminal-safe text: untrusted text that cannot move the cursor, fake a line of output, or hide or reorder text.

use std::fmt::Write as _;
use std::path::Path;

/// Escapes control characters except line feeds and tabs, and characters that reorder or hide text.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || is_trick(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Escapes as [`visible`] does, and every byte that is not UTF-8 as `\xff`.
pub fn visible_bytes(bytes: &[u8]) -> String {
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

/// Escapes text and keeps it on one line, because a line break could fake a line of output.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns a path on one line, escaped.
pub fn name(path: &Path) -> String {
    one_line(&path.display().to_string())
}

/// Escapes a message and joins its lines with spaces.
pub fn joined(text: &str) -> String {
    visible(text).replace('\n', " ")
}

/// Escapes each of the first `longest` characters with `escape` and replaces the rest by `…`.
pub fn cut(text: &str, longest: usize, escape: impl Fn(char, &mut String)) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == longest {
            shown.push('…');
            break;
        }
        escape(c, &mut shown);
    }
    shown
}

/// Returns true for zero-width characters and bidirectional controls.
fn is_trick(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes program output except for colours and carriage returns.
pub fn tamed(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.find(['\r', '\x1b']) {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let length = colour(rest).unwrap_or(1);
        let kept = length > 1 || rest.starts_with('\r');
        shown.push_str(&if kept { rest[..length].into() } else { visible(&rest[..length]) });
        rest = &rest[length..];
    }
    shown + &visible(rest)
}

/// Returns the length of the colour sequence at the start of a text.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    let is_colour = numbers[end..].starts_with('m') && !hides(&numbers[..end]);
    is_colour.then_some("\x1b[".len() + end + 1)
}

/// Returns true if a parameter of the sequence conceals text (8). As part of a colour, an 8 conceals nothing.
fn hides(numbers: &str) -> bool {
    let mut numbers = numbers.split([';', ':']).map(|number| number.trim_start_matches('0'));
    while let Some(number) = numbers.next() {
        let arguments = match number {
            "8" => return true,
            "38" | "48" | "58" => match numbers.next() {
                Some("5") => 1,
                Some("2") => 3,
                _ => 0,
            },
            _ => 0,
        };
        numbers.by_ref().take(arguments).for_each(drop);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_escapes_everything_but_text() {
        for (bytes, expected) in [
            (&b"plain\ttext\n"[..], "plain\ttext\n"),
            (b"\x1b[31mred", "\\u{1b}[31mred"),
            (b"over\rwritten", "over\\u{d}written"),
            ("bidi \u{202e}txt".as_bytes(), "bidi \\u{202e}txt"),
            ("zero\u{200b}width".as_bytes(), "zero\\u{200b}width"),
            ("tag\u{e0041}".as_bytes(), "tag\\u{e0041}"),
            ("soft\u{ad}hyphen".as_bytes(), "soft\\u{ad}hyphen"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("gr\u{fc}n \u{1f980}".as_bytes(), "gr\u{fc}n \u{1f980}"),
        ] {
            assert_eq!(visible_bytes(bytes), expected);
        }
    }

    #[test]
    fn lines_are_escaped_or_joined() {
        assert_eq!(one_line("a\nb\tc\r"), "a\\nb\\tc\\u{d}");
        assert_eq!(joined("a\nb\tc"), "a b\tc");
    }

    #[test]
    fn cut_counts_characters_before_they_are_escaped() {
        let escape = |c: char, text: &mut String| text.extend(c.escape_debug());
        assert_eq!(cut("a\nü", 3, escape), "a\\nü");
        assert_eq!(cut("a\nü", 2, escape), "a\\n…");
    }

    #[test]
    fn tamed_keeps_colours_and_escapes_other_sequences() {
        for (text, expected) in [
            ("plain é\n", "plain é\n"),
            ("\x1b[1;31mred\x1b[0m\x1b[m", "\x1b[1;31mred\x1b[0m\x1b[m"),
            ("10%\r20%", "10%\r20%"),
            ("\x1b]52;c;eA==\x07", "\\u{1b}]52;c;eA==\\u{7}"),
            ("\x1b[2J\x1b[6n\x1bP", "\\u{1b}[2J\\u{1b}[6n\\u{1b}P"),
            ("\u{9b}2J\u{202e}", "\\u{9b}2J\\u{202e}"),
            ("\x1b[8mx\x1b[1;08m", "\\u{1b}[8mx\\u{1b}[1;08m"),
            ("\x1b[38;5;8m\x1b[48;2;8;8;8m", "\x1b[38;5;8m\x1b[48;2;8;8;8m"),
            ("\x1b[38;5;1;8m", "\\u{1b}[38;5;1;8m"),
            ("\x1b[31", "\\u{1b}[31"),
            ("\x1b", "\\u{1b}"),
        ] {
            assert_eq!(tamed(text.as_bytes()), expected, "{text:?}");
        }
    }
}
