//! The log of a session. What runs inside writes to a terminal whose other end is read here, outside: it
//! can add to its log, and never take anything away.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use sandbox_linux::{fd, socket};

/// A log that grows longer begins anew; the one before it is kept.
const LONGEST: u64 = 8 << 20;

/// How long whoever wants to read the end of a log waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the log goes.
pub(super) struct Logs {
    pub(super) present: PathBuf,
    pub(super) before: PathBuf,
}

/// Writes down what comes from the terminal until nobody has its other end any more. For a process
/// of its own, which begins by giving up everything else that it has open.
pub(super) fn keep(terminal: OwnedFd, logs: &Logs) -> io::Result<()> {
    let nothing = socket::nothing()?;
    for number in 0..3 {
        fd::replace(number, &nothing)?;
    }
    drop(nothing);
    let mut terminal = File::from(fd::keep_only(terminal)?);
    let mut log = open(logs)?;
    let mut length = log.metadata()?.len();
    let mut text = [0; 16 << 10];
    loop {
        let read = match terminal.read(&mut text) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The kernel says so when the last one has closed the other end.
            Err(_) => return Ok(()),
        };
        // A full disk costs lines of the log, and never the session.
        let written = without_returns(&text[..read]);
        length += log.write_all(&written).map_or(0, |()| written.len() as u64);
        if length > LONGEST {
            let moved = std::fs::rename(&logs.present, &logs.before).and_then(|()| open(logs));
            if let Ok(new) = moved {
                (log, length) = (new, 0);
            }
        }
    }
}

fn open(logs: &Logs) -> io::Result<File> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&logs.present)?;
    // Held as long as there may be more to write.
    let _ = flock(&log, FlockOperation::NonBlockingLockExclusive);
    Ok(log)
}

/// Waits until everything is written that a session said before its end.
pub(super) fn wait_for_the_last_word(log: &Path) {
    let end = Instant::now() + PATIENCE;
    while let Ok(file) = File::open(log)
        && flock(&file, FlockOperation::NonBlockingLockShared).is_err()
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A terminal ends lines with two characters, a file with one.
fn without_returns(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(at + 1).is_some_and(|next| *next != b'\n') {
            kept.push(*byte);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::without_returns;

    #[test]
    fn lines_of_a_terminal_become_lines_of_a_file() {
        for (text, expected) in [
            (&b"a\r\nb\r\n"[..], &b"a\nb\n"[..]),
            (b"10%\r20%\r\n", b"10%\r20%\n"),
            (b"\xff\0\r\n", b"\xff\0\n"),
            (b"", b""),
        ] {
            assert_eq!(without_returns(text), expected);
        }
    }
}
