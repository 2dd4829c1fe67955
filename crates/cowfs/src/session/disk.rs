//! Files of our own: private, and replaced as a whole.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::{SessionError, cannot};

/// Makes a directory that nobody else can look into, and those above it.
pub(super) fn private_dir(path: &Path) -> Result<(), SessionError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(cannot("make", path))
}

/// Whether a file has to be there after the power went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    /// As soon as it is written.
    Yes,
    /// Another one that has to be follows at once.
    No,
}

/// Writes a file so that a reader, and a crash, sees the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8], durable: Durable) -> Result<(), SessionError> {
    let temporary = path.with_extension(format!("new-{}", sandbox_linux::process::pid()));
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        if durable == Durable::Yes {
            file.sync_data()?;
        }
        fs::rename(&temporary, path)
    })();
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        cannot("write", path)(error)
    })
}

/// So much is set aside while a command runs: it may fill the disk, and the records that follow
/// need room.
const RESERVE: u64 = 256 << 10;

/// Sets room aside; where there is none, there is none.
pub(super) fn reserve(path: &Path) {
    if let Ok(file) =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
    {
        let none = rustix::fs::FallocateFlags::empty();
        let _ = rustix::fs::fallocate(&file, none, 0, RESERVE);
    }
}

/// Gives the room back.
pub(super) fn release(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Seconds since the epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A name that sorts by the time of its making and that nobody else makes: nine letters for the
/// time in milliseconds, five by chance.
pub(super) fn unique() -> Result<String, SessionError> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let letter = |value: u64| char::from(LETTERS[usize::try_from(value % 32).unwrap_or(0)]);
    let mut chance = [0; 8];
    let source = Path::new("/dev/urandom");
    let read = fs::File::open(source)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut chance));
    read.map_err(cannot("read", source))?;
    let chance = u64::from_ne_bytes(chance);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let time = u64::try_from(time).unwrap_or(0);
    let time = (0..9).rev().map(|digit| letter(time >> (5 * digit)));
    Ok(time.chain((0..5).map(|digit| letter(chance >> (5 * digit)))).collect())
}
