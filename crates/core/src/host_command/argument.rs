//! Which parts of a word are paths.
//!
//! Nobody knows what a program makes of its words, so that every part that looks like a path counts as one: the whole
//! word, what follows `=`, `:`, `,` or `@`, and what is attached to a short option.

use std::ops::Range;

/// A part of a word that may be a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where it stands in the word.
    pub range: Range<usize>,
    /// Whether it begins with a slash.
    pub absolute: bool,
}

/// The parts of a word that may be paths, none within another but for the whole word, which comes first.
pub fn parts(word: &[u8]) -> Vec<Part> {
    let mut found = Vec::new();
    let mut start = 0;
    for at in 0..=word.len() {
        if at < word.len() && !b"=:,@".contains(&word[at]) {
            continue;
        }
        let from = start + option_letters(&word[start..at], start);
        if from < at && !is_address(word, from) {
            found.push(Part { range: from..at, absolute: word[from] == b'/' });
        }
        start = at + 1;
    }
    // A file may be called `a=b`.
    if found.first().is_none_or(|part| part.range != (0..word.len()))
        && !word.starts_with(b"-")
        && !word.is_empty()
    {
        found.insert(0, Part { range: 0..word.len(), absolute: false });
    }
    found
}

/// How many letters of an option stand before the path that is attached to it: `-f/etc/x`, `--x/y`.
fn option_letters(part: &[u8], start: usize) -> usize {
    if start > 0 || !part.starts_with(b"-") {
        return 0;
    }
    part.iter().position(|byte| *byte == b'/').unwrap_or(part.len())
}

/// Whether this is what follows `https:`. What follows `file:` is a path.
fn is_address(word: &[u8], from: usize) -> bool {
    let Some(scheme) = word[..from].strip_suffix(b":") else { return false };
    let scheme =
        scheme.rsplit(|byte| !byte.is_ascii_alphanumeric() && !b"+.-".contains(byte)).next();
    word[from..].starts_with(b"//")
        && scheme.is_some_and(|scheme| !scheme.is_empty() && !scheme.eq_ignore_ascii_case(b"file"))
}
