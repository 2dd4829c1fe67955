//! Viewer of a session's agent: sees its output, and types to it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::pty::{self, Size};

/// Message: starts viewing. Comes with two pipes, one to read input from and one to write output
/// to.
pub(in super::super) const WATCH: u8 = b'V';
/// Message: resizes the terminal. Followed by rows and columns.
pub(in super::super) const RESIZE: u8 = b'W';

/// Message: detaches once all output was delivered.
pub(in super::super) const LEAVE: u8 = b'L';

/// Time after which a viewer that does not read is dropped.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum size of a write. A pipe that poll(2) reports as writable takes `PIPE_BUF` bytes without
/// blocking (pipe(7)).
const STEP: usize = 4096;

pub(super) struct Viewer {
    conn: OwnedFd,
    typed: Option<OwnedFd>,
    shown: Option<OwnedFd>,
    pending: Vec<u8>,
    leaving: bool,
    /// Time of the last progress.
    since: Instant,
}

impl Viewer {
    pub(super) fn new(conn: OwnedFd) -> Self {
        let (typed, shown, since) = (None, None, Instant::now());
        Self { conn, typed, shown, pending: Vec::new(), leaving: false, since }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn awaited(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Awaited)> {
        let typed = self.typed.as_ref().map(|typed| (typed.as_fd(), Awaited::Data));
        let shown = self.shown.as_ref().filter(|_| self.is_behind());
        let shown = shown.map(|shown| (shown.as_fd(), Awaited::Writable));
        [(self.conn.as_fd(), Awaited::Data)].into_iter().chain(typed).chain(shown)
    }

    /// Queues output.
    pub(super) fn show(&mut self, text: &[u8]) {
        if self.shown.is_some() {
            if self.pending.is_empty() {
                self.since = Instant::now();
            }
            self.pending.extend_from_slice(text);
        }
    }

    /// Does what is possible without blocking. Returns false when the viewer is gone.
    pub(super) fn step(&mut self, terminal: &File) -> bool {
        self.hear(terminal) && self.pass_on(terminal) && self.write()
    }

    fn hear(&mut self, terminal: &File) -> bool {
        loop {
            let message = match channel::receive(self.conn.as_fd()) {
                Ok(Some(message)) => message,
                Ok(None) => return false,
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            };
            match message.text[..] {
                [WATCH] => {
                    let mut pipes = message.attached.into_iter();
                    (self.typed, self.shown) = (pipes.next(), pipes.next());
                }
                [LEAVE] => self.leaving = true,
                [RESIZE, a, b, c, d] => {
                    let (rows, columns) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                    // The terminal may be gone.
                    let _ = pty::resize(terminal.as_fd(), Size { rows, columns });
                }
                _ => return false,
            }
        }
    }

    /// Forwards input to the terminal.
    fn pass_on(&mut self, terminal: &File) -> bool {
        let Some(typed) = &self.typed else { return true };
        if !is_ready(typed.as_fd(), Awaited::Data) {
            return true;
        }
        let mut keys = [0; STEP];
        match channel::read(typed.as_fd(), &mut keys) {
            Ok(0) | Err(_) => self.typed = None,
            Ok(read) => drop(channel::write(terminal.as_fd(), &keys[..read])),
        }
        true
    }

    fn write(&mut self) -> bool {
        let Some(shown) = self.shown.as_ref().filter(|_| self.is_behind()) else { return true };
        if !is_ready(shown.as_fd(), Awaited::Writable) {
            return self.since.elapsed() < PATIENCE;
        }
        let end = self.pending.len().min(STEP);
        match channel::write(shown.as_fd(), &self.pending[..end]) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(_) => return false,
        }
        self.since = Instant::now();
        true
    }
}

fn is_ready(fd: BorrowedFd<'_>, awaited: Awaited) -> bool {
    channel::wait(&[(fd, awaited)], Some(0)).is_ok_and(|ready| ready.contains(&true))
}
