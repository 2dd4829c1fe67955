//! What a program was when it ran, so that one that was put in its place later is told apart.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// The SHA-256 of a file, as `sha256sum` writes it.
pub(super) fn of(mut file: File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
