//! Log lines on standard error, each with the prefix of its personality and written by one call.

use std::ffi::OsStr;
use std::fmt::Arguments;
use std::io::Write as _;

use sandbox_linux::error::chain;
use sandbox_linux::escape::cut;
use sandbox_protocol::Hint;

/// Log of a personality.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log(pub(crate) &'static str);

impl Log {
    /// Logs an event.
    pub(crate) fn say(self, text: Arguments<'_>) {
        plain(&format!("[{}] {text}", self.0));
    }

    /// Logs a problem that does not prevent the start.
    pub(crate) fn warn(self, text: Arguments<'_>) {
        self.say(format_args!("warning: {text}"));
    }

    /// Logs an error with its causes and its hint.
    pub(crate) fn error(self, error: &dyn Hint) {
        self.say(format_args!("error: {}", chain(error)));
        if let Some(hint) = error.hint() {
            self.say(format_args!("hint: {hint}"));
        }
    }
}

/// Writes a line without a prefix. Ignores errors, which cannot be reported anywhere.
pub(crate) fn plain(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Longest word that is not truncated.
const LONGEST: usize = 1024;

/// Formats a word for a log line. Escapes control characters, and truncates words that are longer than any name.
pub(crate) fn shown(word: impl AsRef<OsStr>) -> String {
    cut(&word.as_ref().to_string_lossy(), LONGEST, |letter, text| {
        if letter.is_control() {
            text.extend(letter.escape_default());
        } else {
            text.push(letter);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_escapes_control_characters_only() {
        assert_eq!(shown("a b\u{1b}[31m\nü"), "a b\\u{1b}[31m\\nü");
    }

    #[test]
    fn shown_cuts_what_is_longer_than_any_name() {
        let (name, value) = ("n".repeat(LONGEST), "v".repeat(100_000));
        assert_eq!(shown(&name), name);
        assert_eq!(shown(&value), format!("{}…", "v".repeat(LONGEST)));
    }
}
