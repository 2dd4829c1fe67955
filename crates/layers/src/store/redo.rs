//! Redo log beside a mounted database, with the changes since the last commit. Appending costs one
//! write, a commit many. So acknowledged changes survive the death of the daemon without a commit
//! each. Power loss may tear the log, which its checksums detect; fsync(2) commits instead.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::room::hold;

const MAGIC: u64 = u64::from_le_bytes(*b"asbredo1");
const HEADER: usize = 40;
/// Maximum capacity of the record buffer between records.
const LARGEST_KEPT: usize = 256 << 10;

/// Redo log open for writing.
#[derive(Debug)]
pub(crate) struct Redo {
    file: File,
    epoch: u64,
    last_ino: u64,
    end: u64,
    /// Buffer of the current record, reused.
    record: Vec<u8>,
}

/// State of the database that a record follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Follows {
    /// Counter that is incremented by each commit that makes a log obsolete.
    pub(crate) epoch: u64,
    /// Last inode number in use. It differs if another tool has written since.
    pub(crate) last_ino: u64,
}

impl Redo {
    /// Opens the log at `path`, creating it; it follows the database's present state.
    pub(crate) fn open(path: &Path, follows: Follows) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .read(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        let Follows { epoch, last_ino } = follows;
        Ok(Self { file, epoch, last_ino, end: 0, record: Vec::new() })
    }

    /// Returns the length of the valid log, which is zero after a commit.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    /// Restarts the log after a commit.
    pub(crate) fn restart(&mut self, follows: Follows) {
        (self.epoch, self.last_ino, self.end) = (follows.epoch, follows.last_ino, 0);
    }

    /// Reserves disk space for `bytes` bytes.
    pub(crate) fn hold(&self, bytes: u64) -> io::Result<()> {
        hold(&self.file, 0, bytes)
    }

    /// Waits until the log is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Appends one record with `statements` and `more`, which is read back whole or not at all.
    pub(crate) fn append(&mut self, statements: &[u8], more: &[u8]) -> io::Result<()> {
        let length = statements.len() + more.len();
        let record = &mut self.record;
        record.clear();
        for word in [MAGIC, self.epoch, self.last_ino, length as u64, 0] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend_from_slice(statements);
        record.extend_from_slice(more);
        let sum = sum(&record[..HEADER - 8], &record[HEADER..]) ^ self.end;
        record[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(record, self.end)?;
        self.end += record.len() as u64;
        record.shrink_to(LARGEST_KEPT);
        Ok(())
    }
}

/// Returns all statements in the log at `path` that follow the given state, in order.
pub(crate) fn read(path: &Path, follows: Follows) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bytes),
        Err(error) => return Err(error),
    };
    let (mut statements, mut at) = (Vec::new(), 0);
    while let Some(record) = record(&bytes[at..], at as u64, follows) {
        statements.extend_from_slice(record);
        at += HEADER + record.len();
    }
    Ok(statements)
}

fn record(bytes: &[u8], at: u64, follows: Follows) -> Option<&[u8]> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let word = |n: usize| {
        header[n * 8..n * 8 + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let expected = [MAGIC, follows.epoch, follows.last_ino];
    let statements = rest.get(..usize::try_from(word(3)).ok()?)?;
    let sound = [word(0), word(1), word(2)] == expected
        && sum(&header[..HEADER - 8], statements) ^ at == word(4);
    sound.then_some(statements)
}

/// Computes a checksum against torn writes. It need not resist malice: a process that can write the
/// log can write the database.
fn sum(header: &[u8], statements: &[u8]) -> u64 {
    let add = |sum: u64, word: [u8; 8]| {
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    let words = |bytes: &[u8], start: u64| {
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words.iter().fold(start, |sum, word| add(sum, *word));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        if rest.is_empty() { sum } else { add(sum, last) }
    };
    words(statements, words(header, 0x243f_6a88_85a3_08d3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Follows = Follows { epoch: 4, last_ino: 9 };

    fn log(records: &[&[u8]]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("redo");
        let mut redo = Redo::open(&path, NOW).unwrap();
        for record in records {
            let (statements, more) = record.split_at(record.len() / 2);
            redo.append(statements, more).unwrap();
        }
        (dir, path)
    }

    #[test]
    fn a_log_is_read_back_whole() {
        let (_dir, path) = log(&[b"one", b"", b"and two"]);
        assert_eq!(read(&path, NOW).unwrap(), b"oneand two");
    }

    #[test]
    fn a_log_that_follows_another_state_is_ignored() {
        let (_dir, path) = log(&[b"one"]);
        assert_eq!(read(&path, Follows { epoch: 5, ..NOW }).unwrap(), b"");
        assert_eq!(read(&path, Follows { last_ino: 10, ..NOW }).unwrap(), b"");
        assert_eq!(read(&path, NOW).unwrap(), b"one");
    }

    #[test]
    fn a_torn_log_ends_at_the_last_whole_record() {
        let (_dir, path) = log(&[b"one", b"two"]);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let expected: &[u8] = if cut < HEADER + 3 { b"" } else { b"one" };
            assert_eq!(read(&path, NOW).unwrap(), expected, "cut at {cut}");
        }
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        assert_eq!(read(&path, NOW).unwrap(), b"one");
    }

    #[test]
    fn records_before_a_restart_are_not_read_again() {
        let (_dir, path) = log(&[b"an old and long record", b"more"]);
        let next = Follows { epoch: 5, last_ino: 9 };
        let mut redo = Redo::open(&path, NOW).unwrap();
        redo.restart(next);
        redo.append(b"new", b"").unwrap();
        assert_eq!(read(&path, next).unwrap(), b"new");
    }
}
