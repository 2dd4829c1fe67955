//! Matching of one path component against one segment of a glob.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};

/// Segment of a glob. A segment whose only special character is `*` is matched without a regular expression, because
/// compiling one takes longer than resolving a hundred rules.
#[derive(Debug, Clone)]
pub struct NameMatcher(Form);

#[derive(Debug, Clone)]
enum Form {
    /// The text around each `*`.
    Stars(Vec<Vec<u8>>),
    Glob(GlobMatcher),
}

impl NameMatcher {
    /// Parses a segment, in which `{` and `}` are ordinary characters.
    pub(super) fn parse(segment: &str) -> Result<Self, globset::Error> {
        if !segment.contains(['?', '[', '\\', '{', '}']) {
            let parts = segment.split('*').map(|part| part.as_bytes().to_vec());
            return Ok(Self(Form::Stars(parts.collect())));
        }
        let glob = GlobBuilder::new(&plain_braces(segment))
            .literal_separator(true)
            .backslash_escape(true)
            .build()?;
        Ok(Self(Form::Glob(glob.compile_matcher())))
    }

    /// Returns true when the segment matches the whole name.
    pub fn is_match(&self, name: impl AsRef<OsStr>) -> bool {
        match &self.0 {
            Form::Stars(parts) => fits(parts, name.as_ref().as_bytes()),
            Form::Glob(matcher) => matcher.is_match(name.as_ref()),
        }
    }
}

/// Returns true when a name starts with the first part, ends with the last and contains the others in between, in order.
fn fits(parts: &[Vec<u8>], name: &[u8]) -> bool {
    let [first, middle @ .., last] = parts else {
        return parts.first().is_some_and(|only| only == name);
    };
    let Some(mut rest) =
        name.strip_prefix(&first[..]).and_then(|rest| rest.strip_suffix(&last[..]))
    else {
        return false;
    };
    middle.iter().filter(|part| !part.is_empty()).all(|part| {
        let found = rest.windows(part.len()).position(|window| window == &part[..]);
        found.inspect(|at| rest = &rest[at + part.len()..]).is_some()
    })
}

/// Escapes braces, which `globset` would read as alternatives, except within `[…]`.
fn plain_braces(segment: &str) -> String {
    let mut plain = String::new();
    let mut rest = segment;
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            '[' => class_length(rest),
            '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ => letter.len_utf8(),
        };
        if matches!(letter, '{' | '}') {
            plain.push('\\');
        }
        let (done, left) = rest.split_at(taken);
        plain.push_str(done);
        rest = left;
    }
    plain
}

/// Returns the length of `[…]`. A bracket right after the opening one is a member of the class.
fn class_length(text: &str) -> usize {
    let inner = text.strip_prefix('[').unwrap_or(text);
    let inner = inner.strip_prefix(['!', '^']).unwrap_or(inner);
    let members = inner.strip_prefix(']').unwrap_or(inner);
    members.find(']').map_or(text.len(), |end| text.len() - members.len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_like_globset() {
        let segments =
            ["*", "a*", "*a", "a*a", "*a*", "a*b*a", "**", "a**b", "ab", "*.a", "a*ab*b", "*a*a*"];
        let letters = ["", "a", "b", ".", "é", "\n"];
        let two = || letters.iter().flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
        let names: Vec<String> =
            two().flat_map(|a| two().map(move |b| format!("{a}{b}"))).collect();
        for segment in segments {
            let ours = NameMatcher::parse(segment).unwrap();
            assert!(matches!(ours.0, Form::Stars(_)), "{segment}");
            let glob = GlobBuilder::new(segment).literal_separator(true).build().unwrap();
            let theirs = glob.compile_matcher();
            for name in &names {
                assert_eq!(ours.is_match(name), theirs.is_match(name), "{segment:?} and {name:?}");
            }
        }
    }

    #[test]
    fn stars_match_names_that_are_not_utf8() {
        let matcher = NameMatcher::parse("a*z").unwrap();
        assert!(matcher.is_match(OsStr::from_bytes(b"a\xff\xfez")));
        assert!(!matcher.is_match(OsStr::from_bytes(b"a\xff")));
    }
}
