//! Encryption at rest with AES-256-GCM. Each secret gets a new nonce and is bound to its name.

use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

/// Key length in bytes.
pub(super) const KEY: usize = 32;

/// Cipher with a key.
pub(super) struct Sealer(LessSafeKey);

impl Sealer {
    pub(super) fn new(key: &[u8; KEY]) -> io::Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Encrypts a text. Returns the nonce, the ciphertext and the tag.
    pub(super) fn seal(&self, name: &str, text: &str) -> io::Result<Vec<u8>> {
        let nonce = random::<NONCE_LEN>()?;
        let mut bytes = Zeroizing::new(text.as_bytes().to_vec());
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(name.as_bytes()),
                &mut bytes,
            )
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok([nonce.as_slice(), &bytes, tag.as_ref()].concat())
    }

    /// Decrypts a text. Returns `None` when the key or name differ or the bytes were modified.
    pub(super) fn open(&self, name: &str, sealed: &[u8]) -> Option<Zeroizing<String>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.0.open_in_place(nonce, Aad::from(name.as_bytes()), &mut bytes).ok()?;
        std::str::from_utf8(text).ok().map(|text| Zeroizing::new(text.to_owned()))
    }
}

/// Returns random bytes.
pub(super) fn random<const N: usize>() -> io::Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new().fill(bytes.as_mut_slice()).map_err(|_| io::ErrorKind::Other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_fails_with_another_key_name_or_bytes() {
        let key = Sealer::new(&[1; KEY]).unwrap();
        let sealed = key.seal("one", "text").unwrap();
        assert_eq!(key.open("one", &sealed).unwrap().as_str(), "text");
        assert!(key.open("two", &sealed).is_none(), "another name");
        assert!(Sealer::new(&[2; KEY]).unwrap().open("one", &sealed).is_none(), "another key");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(key.open("one", &changed).is_none(), "byte {at}");
            assert!(key.open("one", &sealed[..at]).is_none(), "cut at {at}");
        }
        assert_ne!(sealed, key.seal("one", "text").unwrap(), "each nonce is new");
        assert!(!sealed.windows(4).any(|four| four == b"text"));
    }
}
