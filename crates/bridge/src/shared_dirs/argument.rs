//! Detection of paths in a word.
//!
//! How a program interprets its words is unknown, so every part that looks like a path counts as one: the whole word,
//! the text after `=`, `:`, `,` or `@`, and the text attached to the letters of a short option.

use std::ops::Range;

/// Part of a word that may be a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Range in the word.
    pub range: Range<usize>,
    /// True if it begins with a slash.
    pub absolute: bool,
}

/// Maximum length of a file name.
const NAME_MAX: usize = 255;

/// Returns the parts of a word that may be paths. Only relative ones overlap; they are checked but never replaced.
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
    // A file name may be `a=b` or `-v`.
    if found.first().is_none_or(|part| part.range != (0..word.len())) && !word.is_empty() {
        found.insert(0, Part { range: 0..word.len(), absolute: false });
    }
    found.extend(attached(word));
    found
}

/// Returns possible values of a short option or a bundle of them: `-fNAME`, `-vfNAME`.
fn attached(word: &[u8]) -> impl Iterator<Item = Part> {
    let is_short = word.starts_with(b"-") && !word.starts_with(b"--");
    let is_name = word.len() <= NAME_MAX + 2 && !word.contains(&b'/');
    let starts = if is_short && is_name { 2..word.len() } else { 0..0 };
    starts.map(|from| Part { range: from..word.len(), absolute: false })
}

/// Returns the number of option characters before an attached path: `-f/etc/x`, `--x/y`.
fn option_letters(part: &[u8], start: usize) -> usize {
    if start > 0 || !part.starts_with(b"-") {
        return 0;
    }
    part.iter().position(|byte| *byte == b'/').unwrap_or(part.len())
}

/// Returns true for the rest of a URL such as `https:`. The text after `file:` is a path, and so is the text after
/// anything that a program may expand to it: `[f-f]ile:`.
fn is_address(word: &[u8], from: usize) -> bool {
    let Some(before) = word[..from].strip_suffix(b":") else { return false };
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let length = before.iter().rev().take_while(|byte| is_letter(byte)).count();
    let (before, scheme) = before.split_at(before.len() - length);
    let begins = before.last().is_none_or(|byte| b"=,@".contains(byte));
    begins
        && word[from..].starts_with(b"//")
        && !scheme.is_empty()
        && !scheme.eq_ignore_ascii_case(b"file")
}
