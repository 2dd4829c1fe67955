//! Ids and names of sessions.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sandbox_linux::hex;
use serde::Serialize;

use crate::error::ControlError;

/// Id of a session: twelve random hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    const LENGTH: usize = 12;

    /// Returns a random id.
    pub fn generate() -> io::Result<Self> {
        let mut chance = [0u8; Self::LENGTH / 2];
        File::open("/dev/urandom")?.read_exact(&mut chance)?;
        Ok(Self(hex::encode(&chance)))
    }

    /// Parses an id. It becomes part of paths, so nothing but digits is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == Self::LENGTH && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Parses a name: at most 64 letters, digits, `.`, `_` and `-`, starting with a letter or
    /// digit.
    pub fn parse(text: &str) -> Result<Self, ControlError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        if text.len() <= 64 && begins && text.bytes().all(plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(ControlError::Name(text.to_owned()))
    }

    /// Derives a name from the project's, with the first free number if it is taken.
    pub(crate) fn of_project(project: &Path, is_taken: impl Fn(&str) -> bool) -> Self {
        let base = project.file_name().unwrap_or_default().to_string_lossy();
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let base: String = base.chars().map(plain).take(48).collect();
        let base = base.trim_matches('-');
        let base = if base.is_empty() { "session" } else { base };
        let numbered = (2u64..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.to_owned()).chain(numbered);
        Self(names.find(|name| !is_taken(name)).unwrap_or_default())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_refuses_a_name_when_it_could_be_a_flag_or_a_path() {
        for (text, good) in [
            ("web", true),
            ("Web-2.old_x", true),
            ("7", true),
            ("", false),
            ("-rf", false),
            (".hidden", false),
            ("a/b", false),
            ("a b", false),
            ("a\n", false),
            ("ü", false),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(Name::parse(text).is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn parse_refuses_an_id_when_it_could_be_a_path() {
        for (text, good) in [
            ("0123456789ab", true),
            ("0123456789AB", false),
            ("../../../etc", false),
            ("0123456789a", false),
            ("", false),
        ] {
            assert_eq!(SessionId::parse(text).is_some(), good, "{text:?}");
        }
        let id = SessionId::generate().unwrap();
        assert_eq!(SessionId::parse(id.as_str()), Some(id));
    }

    #[test]
    fn of_project_adds_a_number_when_the_name_is_taken() {
        let taken = ["shop".to_owned(), "shop-2".to_owned()];
        for (project, expected) in [
            ("/home/u/shop", "shop-3"),
            ("/home/u/my shop", "my-shop"),
            ("/", "session"),
            ("/home/u/--", "session"),
        ] {
            let name = Name::of_project(Path::new(project), |name| taken.iter().any(|t| t == name));
            assert_eq!(name.as_str(), expected, "{project}");
        }
    }
}
