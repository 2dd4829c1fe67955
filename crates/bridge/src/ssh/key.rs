//! SSH private keys in OpenSSH's format (`PROTOCOL.key` in its sources): creation and reading.

use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as LETTERS;
use ring::signature::{Ed25519KeyPair, KeyPair};
use thiserror::Error;
use zeroize::Zeroizing;

const KIND: &[u8] = b"ssh-ed25519";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";

/// Reason why a private key cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// Not a private key.
    #[error("it is not a private key")]
    NoKey,
    /// Encrypted key.
    #[error("it is protected by a passphrase, which cannot be entered here")]
    Passphrase,
}

/// Creates a key. Returns the private key, and the public key with the comment.
pub fn make(comment: &str) -> io::Result<(Zeroizing<String>, String)> {
    let mut chance = Zeroizing::new([0; 36]);
    std::fs::File::open("/dev/urandom")?.read_exact(&mut *chance)?;
    let (seed, check) = chance.split_at(32);
    let wrong = |_| io::Error::other("cannot create a key");
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(wrong)?;
    let public = pair.public_key().as_ref();
    let known = [text(KIND), text(public)].concat();
    let secret = Zeroizing::new(text(&[seed, public].concat()));
    let mut inner = Zeroizing::new([check, check, &known, &secret].concat());
    inner.extend(text(comment.as_bytes()));
    let padding = (8 - inner.len() % 8) % 8;
    inner.extend((1..=8).take(padding));
    let none = text(b"none");
    let one = 1u32.to_be_bytes();
    let inner = Zeroizing::new(text(&inner));
    let outer = [MAGIC, &none, &none, &text(b""), &one, &text(&known), &inner].concat();
    let private = Zeroizing::new(armoured(&Zeroizing::new(outer)));
    Ok((private, format!("ssh-ed25519 {} {comment}", LETTERS.encode(&known))))
}

/// Encodes a string with its length.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
    [&length[..], bytes].concat()
}

fn armoured(bytes: &[u8]) -> String {
    let letters = Zeroizing::new(LETTERS.encode(bytes));
    let lines = letters.as_bytes().chunks(70).filter_map(|line| std::str::from_utf8(line).ok());
    let lines: Vec<&str> = lines.collect();
    format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
}

/// Returns the public half of a private key, or `None` for a format that this crate does not read.
pub fn public_half(private: &str) -> Result<Option<String>, KeyError> {
    let Some((_, rest)) = private.split_once(BEGIN) else {
        return other_form(private).map(|()| None);
    };
    let (letters, _) = rest.split_once(END).ok_or(KeyError::NoKey)?;
    let letters: String = letters.split_ascii_whitespace().collect();
    let bytes = Zeroizing::new(LETTERS.decode(letters).map_err(|_| KeyError::NoKey)?);
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(KeyError::NoKey)?;
    let cipher = field(&mut rest).ok_or(KeyError::NoKey)?;
    if cipher != b"none" {
        return Err(KeyError::Passphrase);
    }
    let mut public = || {
        let _ = (field(&mut rest)?, field(&mut rest)?);
        let (_, after) = rest.split_at_checked(4)?;
        rest = after;
        let public = field(&mut rest)?;
        let kind = field(&mut &*public)?;
        Some(format!("{} {}", std::str::from_utf8(kind).ok()?, LETTERS.encode(public)))
    };
    public().map(Some).ok_or(KeyError::NoKey)
}

/// Checks other formats, whose public half this crate does not extract.
fn other_form(private: &str) -> Result<(), KeyError> {
    let is_key = private.contains("-----BEGIN ") && private.contains("PRIVATE KEY-----");
    match is_key {
        true if private.contains("ENCRYPTED") => Err(KeyError::Passphrase),
        true => Ok(()),
        false => Err(KeyError::NoKey),
    }
}

fn field<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (field, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_made_tells_its_public_half_and_no_two_are_the_same() {
        let (private, public) = make("agent-sandbox-x").unwrap();
        let half = public.strip_suffix(" agent-sandbox-x").unwrap().to_owned();
        assert!(half.starts_with("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"), "{half}");
        assert_eq!(public_half(&private), Ok(Some(half)));
        assert_ne!(make("agent-sandbox-x").unwrap().1, public);
    }

    #[test]
    fn public_half_refuses_unusable_keys() {
        let begin = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        let mut locked = [MAGIC, &text(b"aes256-ctr"), &text(b"bcrypt")].concat();
        locked.extend(text(b""));
        for (private, expected) in [
            (String::new(), Err(KeyError::NoKey)),
            ("ssh-ed25519 AAAA x".into(), Err(KeyError::NoKey)),
            (begin("OPENSSH PRIVATE KEY"), Err(KeyError::NoKey)),
            (begin("RSA PRIVATE KEY"), Ok(None)),
            (begin("ENCRYPTED PRIVATE KEY"), Err(KeyError::Passphrase)),
            (armoured(&locked), Err(KeyError::Passphrase)),
        ] {
            assert_eq!(public_half(&private), expected, "{private}");
        }
    }
}
