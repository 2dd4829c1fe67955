//! Overwrites secrets in a stream, also when they are split across pieces.
//!
//! A secret is replaced by as many asterisks, so that announced lengths remain valid. Only bytes that may begin a
//! secret are held back until the next piece.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use zeroize::Zeroizing;

/// Scrubber of one stream.
pub(crate) struct Scrubber {
    secrets: Arc<Vec<Pattern>>,
    /// Held-back bytes that may begin a secret.
    held: BytesMut,
}

/// Search pattern of a secret. Built once for each key, not for each response.
#[derive(Clone)]
pub(crate) struct Pattern {
    text: Zeroizing<Vec<u8>>,
    finder: Finder<'static>,
}

impl Pattern {
    pub(crate) fn new(text: &[u8]) -> Self {
        Self { text: Zeroizing::new(text.to_vec()), finder: Finder::new(text).into_owned() }
    }

    /// Returns the secret.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns true when the bytes contain the secret.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.text.len() && self.finder.find(bytes).is_some()
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrubber")
    }
}

impl Scrubber {
    pub(crate) fn new(secrets: &Arc<Vec<Pattern>>) -> Self {
        Self { secrets: secrets.clone(), held: BytesMut::new() }
    }

    /// Returns the scrubbed bytes that can be forwarded now. May be empty.
    pub(crate) fn pass(&mut self, piece: Bytes) -> Bytes {
        let mut whole = if self.held.is_empty() {
            // Common case: nothing is copied unless there is something to overwrite.
            if self.secrets.iter().all(|secret| secret.finder.find(&piece).is_none()) {
                return self.without_tail(piece);
            }
            BytesMut::from(piece)
        } else {
            let mut whole = self.held.split();
            whole.extend_from_slice(&piece);
            whole
        };
        for secret in self.secrets.iter() {
            while let Some(at) = secret.finder.find(&whole) {
                whole[at..at + secret.text.len()].fill(b'*');
            }
        }
        self.without_tail(whole.freeze())
    }

    /// Returns the held-back bytes at the end of the stream. An incomplete secret is harmless.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    /// Returns the number of held-back bytes.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    fn without_tail(&mut self, mut piece: Bytes) -> Bytes {
        let tail =
            self.secrets.iter().map(|secret| overlap(&piece, &secret.text)).max().unwrap_or(0);
        if tail > 0 {
            self.held.extend_from_slice(&piece[piece.len() - tail..]);
            piece.truncate(piece.len() - tail);
        }
        piece
    }
}

/// Returns the number of bytes at the end of the piece that are a proper prefix of the secret.
fn overlap(piece: &[u8], secret: &[u8]) -> usize {
    let Some((first, longest)) = secret.first().zip(secret.len().checked_sub(1)) else { return 0 };
    let from = piece.len().saturating_sub(longest);
    let tail = &piece[from..];
    memchr::memchr_iter(*first, tail)
        .find(|at| secret.starts_with(&tail[*at..]))
        .map_or(0, |at| tail.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scrubber(secrets: &[&str]) -> Scrubber {
        let secrets = secrets.iter().map(|text| Pattern::new(text.as_bytes())).collect();
        Scrubber::new(&Arc::new(secrets))
    }

    fn through(secrets: &[&str], pieces: &[&[u8]]) -> Vec<u8> {
        let mut scrubber = scrubber(secrets);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&scrubber.pass(Bytes::copy_from_slice(piece)));
        }
        all.extend_from_slice(&scrubber.rest());
        all
    }

    #[test]
    fn secret_is_overwritten_when_it_is_split() {
        for pieces in [
            &[b"key sk-secret-1 and sk-secret-1!".as_slice()][..],
            &[b"key sk-sec", b"ret-1 and sk-secret-1!"],
            &[b"key s", b"k", b"-secret-", b"1 and sk-secret-", b"1!"],
        ] {
            assert_eq!(through(&["sk-secret-1"], pieces), b"key *********** and ***********!");
        }
        let single: Vec<&[u8]> = b"sk-sk-secret-1".chunks(1).collect();
        assert_eq!(through(&["sk-secret-1"], &single), b"sk-***********");
    }

    #[test]
    fn pass_holds_back_only_a_prefix_of_the_secret() {
        let mut scrubber = scrubber(&["sk-secret-1"]);
        assert_eq!(scrubber.pass(Bytes::from_static(b"data: hello\n\n")), "data: hello\n\n");
        assert_eq!(scrubber.pass(Bytes::from_static(b"ends in sk-s")), "ends in ");
        assert_eq!(scrubber.held(), 4);
        assert_eq!(scrubber.pass(Bytes::from_static(b"o it went")), "sk-so it went");
        assert_eq!(scrubber.pass(Bytes::from_static(b"s")), "");
        assert_eq!(scrubber.rest(), "s");
    }

    #[test]
    fn pieces_without_a_secret_are_not_copied() {
        let mut scrubber = scrubber(&["sk-secret-1"]);
        let piece = Bytes::from(vec![b'x'; 1000]);
        assert_eq!(scrubber.pass(piece.clone()).as_ptr(), piece.as_ptr());
        assert_eq!(through(&[], &[b"nothing to hide"]), b"nothing to hide");
    }

    proptest! {
        #[test]
        fn no_split_reveals_a_secret(text in "[ab]{0,60}", cuts in proptest::collection::vec(1usize..7, 1..40)) {
            let secrets = ["abab", "bba"];
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            let scrubbed = through(&secrets, &pieces);
            prop_assert_eq!(scrubbed.len(), text.len());
            for secret in secrets {
                prop_assert!(memchr::memmem::find(&scrubbed, secret.as_bytes()).is_none());
            }
        }
    }
}
