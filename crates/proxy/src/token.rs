//! Session tokens: what a sandbox holds in the place of a key.
//!
//! A token is written `session-…` or bare; both name the same session everywhere. Nothing but its
//! SHA-256 is kept, so neither a dump of the proxy's memory nor its files give one away, and a
//! lookup by hash takes the same time for every guess.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

const PREFIX: &str = "session-";
/// Half of what we make ourselves; below it, a token could be guessed.
const SHORTEST: usize = 32;
const LONGEST: usize = 256;

/// A token, without its prefix.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Token(Zeroizing<String>);

/// Why a text cannot be a token.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// It could be guessed, or is no token at all.
    #[error("a session token has {SHORTEST} to {LONGEST} characters after `session-`")]
    Length,
    /// It would have to be escaped in a header or a URL.
    #[error("a session token is made of letters, digits, `-`, `_`, `.` and `~`")]
    Characters,
}

impl Token {
    /// A new one: 256 bits from the kernel.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        std::fs::File::open("/dev/urandom")?.read_exact(bytes.as_mut_slice())?;
        Ok(Self(Zeroizing::new(hex(bytes.as_slice()))))
    }

    /// Reads either spelling.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let bare = bare(text);
        if !(SHORTEST..=LONGEST).contains(&bare.len()) {
            return Err(TokenError::Length);
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if !bare.bytes().all(plain) {
            return Err(TokenError::Characters);
        }
        Ok(Self(Zeroizing::new(bare.to_owned())))
    }

    /// As it is given to a sandbox.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", *self.0))
    }

    /// What is kept of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
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

/// The SHA-256 of a token without its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of what a client sent, in either spelling. No check: what is no token is found nowhere.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(bare(text).as_bytes()).into())
    }

    /// A short name for people and logs, from which the token cannot be had.
    pub fn short(&self) -> String {
        hex(&self.0[..6])
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "not a SHA-256 in hexadecimal";
        let bytes = from_hex(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(WRONG)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes that [`hex`] wrote.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_the_same_in_both_spellings() {
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
    fn hash_reads_what_it_writes_and_shows_little() {
        let hash = TokenHash::of("session-something");
        assert_eq!(TokenHash::try_from(String::from(hash)), Ok(hash));
        assert!(TokenHash::try_from("zz".repeat(32)).is_err());
        assert_eq!(format!("{hash:?}").len(), 12);
        assert_eq!(format!("{:?}", Token::generate().unwrap()), "[token]");
    }
}
