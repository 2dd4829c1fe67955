//! Text in messages: quoting of untrusted text, suggestions for misspelled names, sizes, and line breaks.

use sandbox_linux::escape::cut;

/// Longest excerpt of untrusted text in a message, in characters.
const SHOWN: usize = 120;

/// Quotes untrusted text in backticks. Escapes everything that a terminal could interpret: a project's file must not be
/// able to overwrite the prompt that asks whether to trust it.
pub fn shown(text: &str) -> String {
    let text = cut(text, SHOWN, |letter, text| match letter {
        '\'' | '"' => text.push(letter),
        _ => text.extend(letter.escape_debug()),
    });
    format!("`{text}`")
}

/// Returns the known name that `name` is most likely a misspelling of.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    likely
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// Returns a hint with the nearest known name.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

/// Formats a number of bytes: `9000 B`, `12 KiB`.
pub fn bytes(count: u64) -> String {
    let (mut rest, mut unit) = (count, 0);
    while rest >= 10_000 && unit < 4 {
        rest /= 1024;
        unit += 1;
    }
    format!("{rest} {}", ["B", "KiB", "MiB", "GiB", "TiB"][unit])
}

/// Wraps lines that are longer than the width, and indents the continuation.
pub fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| wrapped_line(line.trim_end(), width) + "\n").collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let words = line.trim_start();
    let start = line.len() - words.len();
    // In a table, continuation lines are indented to the column of descriptions.
    let column = words.find("  ").map(|gap| {
        let row = &words[gap..];
        start + gap + row.len() - row.trim_start().len()
    });
    // A paragraph is not indented.
    let plain = if start == 0 && line.ends_with('.') { 0 } else { start + 2 };
    let hanging = column.filter(|column| column + 20 <= width).unwrap_or(plain);
    let (mut wrapped, mut length) = (String::new(), 0);
    let mut gap = start;
    for word in words.split(' ') {
        let room = word.chars().count();
        if length > hanging && length + gap + room > width {
            wrapped.push('\n');
            (length, gap) = (0, hanging);
        }
        if word.is_empty() {
            gap += 1;
            continue;
        }
        wrapped.extend(std::iter::repeat_n(' ', gap));
        wrapped.push_str(word);
        length += gap + room;
        gap = 1;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_a_similar_name() {
        let known = ["network", "filesystem", "docker", "sandbox"];
        for (name, expected) in [
            ("netwrk", Some("network")),
            ("file_system", Some("filesystem")),
            ("Docker", Some("docker")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }

    #[test]
    fn wrapped_indents_to_the_column_of_descriptions() {
        for (text, expected) in [
            ("short", "short\n"),
            ("one two three four five six", "one two three four\n  five six\n"),
            ("One two three four five six.", "One two three four\nfive six.\n"),
            ("  a  one two three four", "  a  one two three\n    four\n"),
            ("averyveryverylongword and", "averyveryverylongword\n  and\n"),
        ] {
            assert_eq!(wrapped(text, 20), expected, "{text}");
        }
        let row = "  --flag  one two three four five six";
        assert_eq!(wrapped(row, 30), "  --flag  one two three four\n          five six\n");
    }

    #[test]
    fn shown_escapes_control_characters() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{202e}"), "`a\\u{1b}[2Jb\\n\\u{202e}`");
        assert_eq!(shown("it's"), "`it's`");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), SHOWN + 3);
    }
}
