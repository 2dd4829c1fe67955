//! Writer of a session's log, and its viewers. Programs inside write to a terminal whose other end is read here,
//! outside. They can append to the log, but not change what it contains.

mod viewer;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::lock::{LockFile, held};
use sandbox_linux::{fd, socket};

use viewer::Viewer;
pub(super) use viewer::{LEAVE, RESIZE, WATCH};

/// Size at which the log is rotated. One old log is kept.
const LONGEST: u64 = 8 << 20;

/// Time to wait for the end of a log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Paths of the log and of the viewers' socket.
pub(super) struct Logs {
    pub(super) present: PathBuf,
    pub(super) before: PathBuf,
    pub(super) runtime: PathBuf,
}

/// Copies the terminal's output to the log until the last process has closed the other end. Runs in a separate process,
/// which closes all other descriptors first. It holds the session's lock, so a caller that waits for the lock also
/// waits for the last output.
pub(super) fn run(terminal: OwnedFd, lock: &OwnedFd, logs: &Logs) -> io::Result<()> {
    let dev_null = socket::dev_null()?;
    fd::replace(0, lock)?;
    for number in [1, 2] {
        fd::replace(number, &dev_null)?;
    }
    drop(dev_null);
    let terminal = fd::keep_only(terminal)?;
    // Input that a program does not read in time is dropped, as on any terminal.
    socket::set_nonblocking(terminal.as_fd())?;
    let listener = socket::listen(&logs.runtime, super::ATTACH)?;
    socket::set_nonblocking(listener.as_fd())?;
    let log = open(logs)?;
    let length = log.metadata()?.len();
    LogWriter { terminal: terminal.into(), listener, logs, log, length, viewers: Vec::new() }.run()
}

struct LogWriter<'l> {
    terminal: File,
    listener: OwnedFd,
    logs: &'l Logs,
    log: File,
    length: u64,
    viewers: Vec<Viewer>,
}

impl LogWriter<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut text = [0; 16 << 10];
        loop {
            let (has_output, has_caller) = self.pause()?;
            if has_caller && let Ok(conn) = socket::accept(self.listener.as_fd()) {
                self.viewers.push(Viewer::new(conn));
            }
            let terminal = &self.terminal;
            self.viewers.retain_mut(|viewer| viewer.step(terminal));
            if has_output == Some(false) && !self.viewers.iter().any(Viewer::is_behind) {
                self.viewers.retain(|viewer| !viewer.is_leaving());
            }
            if has_output != Some(true) {
                continue;
            }
            match self.terminal.read(&mut text) {
                Ok(0) => return Ok(()),
                Ok(read) => self.take(&text[..read]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                // Linux returns EIO once the last process has closed the other end of a pty: `n_tty_read()`.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Waits for an event. Returns whether the terminal has output, if that was checked, and whether a viewer connects.
    fn pause(&self) -> io::Result<(Option<bool>, bool)> {
        // Read nothing more until every viewer has received the output so far.
        let behind = self.viewers.iter().any(Viewer::is_behind);
        let mut fds = vec![(self.listener.as_fd(), Awaited::Data)];
        fds.extend(self.viewers.iter().flat_map(Viewer::awaited));
        fds.extend((!behind).then(|| (self.terminal.as_fd(), Awaited::Data)));
        let limit = if self.viewers.iter().any(Viewer::is_leaving) && !behind {
            Some(0)
        } else {
            behind.then(|| u64::try_from(viewer::PATIENCE.as_millis()).unwrap_or(0))
        };
        let ready = channel::wait(&fds, limit)?;
        let said = (!behind).then(|| ready.last() == Some(&true));
        Ok((said, ready.first() == Some(&true)))
    }

    fn take(&mut self, text: &[u8]) {
        for viewer in &mut self.viewers {
            viewer.show(text);
        }
        // A full disk loses log lines, but does not end the session.
        let written = without_returns(text);
        self.length += self.log.write_all(&written).map_or(0, |()| written.len() as u64);
        if self.length > LONGEST {
            let moved = std::fs::rename(&self.logs.present, &self.logs.before);
            if let Ok(new) = moved.and_then(|()| open(self.logs)) {
                (self.log, self.length) = (new, 0);
            }
        }
    }
}

fn open(logs: &Logs) -> io::Result<File> {
    let log: LockFile =
        OpenOptions::new().append(true).create(true).mode(0o600).open(&logs.present)?.into();
    // Held until nothing more can be written.
    let _ = log.try_exclusive();
    Ok(log.into())
}

/// Waits until the log of a session is complete.
pub(super) fn wait_until_closed(log: &Path) {
    let end = Instant::now() + PATIENCE;
    while held(log).is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Replaces line ends of a terminal, CR LF, by LF.
pub(in crate::backend) fn without_returns(text: &[u8]) -> Vec<u8> {
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
    fn without_returns_replaces_line_ends() {
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
