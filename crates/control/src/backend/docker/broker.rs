//! The process that carries host commands out: one for each session, on the host, known by the lock that it holds.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::backend::bwrap::holder;

/// How long it may take until it listens.
const READY: Duration = Duration::from_secs(10);
const SOCKET: &str = "bridge/socket";

/// Its lock, which is held as long as it lives.
pub(super) fn lock(dir: &Path) -> PathBuf {
    dir.join("broker.lock")
}

/// Starts it, unless it runs, and waits until it listens.
pub(super) fn start(program: &Path, words: &[OsString], dir: &Path) -> io::Result<()> {
    let Some(held) = holder::take(&lock(dir))? else { return Ok(()) };
    // One that was killed leaves its socket behind.
    match std::fs::remove_file(dir.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::from(held.try_clone()?);
    let log =
        OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join("broker.log"))?;
    let mut command = Command::new(program);
    // The lock goes along as its input, which it never reads. Keys of our terminal are not for it.
    command.args(words).current_dir(dir).process_group(0);
    command.stdin(Stdio::from(held)).stdout(Stdio::null()).stderr(Stdio::from(log));
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let start = sandbox_linux::process::start_of(pid).unwrap_or(0);
    file.set_len(0)?;
    file.write_all(format!("{pid} {start}\n").as_bytes())?;
    let end = Instant::now() + READY;
    while !dir.join(SOCKET).try_exists()? {
        if child.try_wait()?.is_some() || Instant::now() > end {
            let log = std::fs::read_to_string(dir.join("broker.log")).unwrap_or_default();
            return Err(io::Error::other(format!("it does not listen: {}", log.trim())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Ends it, and waits for its end.
pub(super) fn end(dir: &Path) -> io::Result<()> {
    holder::end(&lock(dir))
}
