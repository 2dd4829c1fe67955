//! Digest of a program, which identifies the version that ran.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of a file in hexadecimal, as `sha256sum` prints it.
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
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
