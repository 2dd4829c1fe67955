//! Session tokens, which a sandbox holds instead of keys.
//!
//! A token is written as `session-…` or bare, with the same meaning. Only its SHA-256 is stored, so neither the proxy's
//! memory nor its files reveal it, and a lookup takes the same time for every guess.

use std::fmt;
use std::io::{self, Read};

use sandbox_linux::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

pub(crate) const PREFIX: &str = "session-";
/// Fewest characters of a token. Shorter ones could be guessed.
pub(crate) const SHORTEST: usize = 32;
/// Hexadecimal digits of a generated token.
pub(crate) const GENERATED: usize = 64;
const LONGEST: usize = 256;

/// A token, without its prefix.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Token(Zeroizing<String>);

/// Invalid token.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// Too short to be safe, or too long.
    #[error("a session token must have {SHORTEST} to {LONGEST} characters after `session-`")]
    Length,
    /// It contains characters that need escaping in a header or a URL.
    #[error("a session token may only contain letters, digits, `-`, `_`, `.` and `~`")]
    Characters,
}

impl Token {
    /// Generates a token with 256 random bits.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        std::fs::File::open("/dev/urandom")?.read_exact(bytes.as_mut_slice())?;
        Ok(Self(Zeroizing::new(hex::encode(bytes.as_slice()))))
    }

    /// Parses a token, with or without the prefix.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let bare = bare(text);
        if !(SHORTEST..=LONGEST).contains(&bare.len()) {
            return Err(TokenError::Length);
        }
        if !bare.chars().all(has_letter) {
            return Err(TokenError::Characters);
        }
        Ok(Self(Zeroizing::new(bare.to_owned())))
    }

    /// Returns the token with the prefix, as a sandbox gets it.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", *self.0))
    }

    /// Returns the hash, the only form that is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// Returns true for characters that are allowed in tokens.
pub(crate) fn has_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.~".contains(letter)
}

fn bare(text: &str) -> &str {
    text.strip_prefix(PREFIX).unwrap_or(text)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

impl TryFrom<String> for Token {
    type Error = TokenError;

    fn try_from(text: String) -> Result<Self, TokenError> {
        Self::parse(&Zeroizing::new(text))
    }
}

/// SHA-256 of a token without its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token from a client, with or without the prefix. Invalid tokens match no session.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(bare(text).as_bytes()).into())
    }

    /// Returns a short ID for logs. It does not reveal the token.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex::encode(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "not a SHA-256 in hexadecimal";
        let bytes = hex::decode(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_equal_with_and_without_prefix() {
        let token = Token::generate().unwrap();
        let text = token.text();
        assert_eq!(text.len(), PREFIX.len() + 64);
        let bare = text.strip_prefix(PREFIX).unwrap();
        assert_eq!(Token::parse(bare).unwrap(), token);
        assert_eq!(Token::parse(&text).unwrap(), token);
        assert_eq!(TokenHash::of(bare), token.hash());
        assert_eq!(TokenHash::of(&text), token.hash());
        assert_ne!(Token::generate().unwrap(), token);
    }

    #[test]
    fn token_is_refused_when_it_could_be_guessed_or_must_be_escaped() {
        assert_eq!(Token::parse("session-short"), Err(TokenError::Length));
        assert_eq!(Token::parse(&"x".repeat(257)), Err(TokenError::Length));
        assert_eq!(Token::parse(&"a b".repeat(20)), Err(TokenError::Characters));
        assert_eq!(Token::parse(&"a\n".repeat(20)), Err(TokenError::Characters));
    }

    #[test]
    fn hash_survives_a_round_trip_and_debug_is_short() {
        let hash = TokenHash::of("session-something");
        assert_eq!(TokenHash::try_from(String::from(hash)), Ok(hash));
        assert!(TokenHash::try_from("zz".repeat(32)).is_err());
        assert_eq!(format!("{hash:?}").len(), 12);
        assert_eq!(format!("{:?}", Token::generate().unwrap()), "[token]");
    }
}
