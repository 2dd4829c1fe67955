//! Private files of agent-sandbox, replaced atomically.

use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_linux::replace::{DraftName, Durability, Replace};

use super::error::{SessionError, cannot};

/// Creates a directory that no other user can read, with its parents.
pub(super) fn private_dir(path: &Path) -> Result<(), SessionError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(cannot("create", path))
}

/// Replaces a file atomically. Readers, also after a crash, see the old or the new content.
pub(super) fn replace(path: &Path, bytes: &[u8], when: Durability) -> Result<(), SessionError> {
    let way = Replace { draft: DraftName::PerProcess, ..Replace::private(when) };
    way.write(path, bytes).map_err(cannot("write", path))
}

/// Disk space reserved while a command runs. The command may fill the disk, and the records written afterwards need
/// space.
const RESERVE: u64 = 256 << 10;

/// Reserves the space, if possible.
pub(super) fn reserve(path: &Path) {
    if let Ok(file) =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
    {
        let none = rustix::fs::FallocateFlags::empty();
        let _ = rustix::fs::fallocate(&file, none, 0, RESERVE);
    }
}

/// Releases the space.
pub(super) fn release(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Returns a unique name that sorts by creation time: nine characters for the time in milliseconds, five random ones.
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
