//! Text in messages: quoting of untrusted text, and suggestions for misspelled names.

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
    fn shown_escapes_control_characters() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{202e}"), "`a\\u{1b}[2Jb\\n\\u{202e}`");
        assert_eq!(shown("it's"), "`it's`");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), SHOWN + 3);
    }
}
