//! Words for people: how foreign text is shown, and which known name it probably meant.

use sandbox_linux::escape::cut;

/// The longest piece of foreign text that a message repeats.
const SHOWN: usize = 120;

/// Foreign text in backticks. Whatever a terminal could obey is escaped, because a project's
/// file must not be able to paint over the question whether to trust it.
pub fn shown(text: &str) -> String {
    let text = cut(text, SHOWN, |letter, text| match letter {
        '\'' | '"' => text.push(letter),
        _ => text.extend(letter.escape_debug()),
    });
    format!("`{text}`")
}

/// The known name that `name` is most likely a slip of.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    likely
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// The hint that names the nearest known name.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_the_slip_when_one_name_is_close() {
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
    fn shown_escapes_what_a_terminal_obeys() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{202e}"), "`a\\u{1b}[2Jb\\n\\u{202e}`");
        assert_eq!(shown("it's"), "`it's`");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), SHOWN + 3);
    }
}
