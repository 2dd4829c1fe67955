//! Somebody who watches a session's agent, and types to it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::pty::{self, Size};

/// I want to watch: two pipes come with it, one to read what is typed, one to write what is said.
pub(in super::super) const WATCH: u8 = b'V';
/// The terminal has another size: lines and columns follow.
pub(in super::super) const RESIZE: u8 = b'W';

/// I go as soon as I have seen everything that was said.
pub(in super::super) const LEAVE: u8 = b'L';

/// Who does not take what is said for so long is not waited for any more.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What a pipe that has room at all has room for.
const STEP: usize = 4096;

pub(super) struct Viewer {
    conn: OwnedFd,
    typed: Option<OwnedFd>,
    shown: Option<OwnedFd>,
    pending: Vec<u8>,
    leaving: bool,
    /// Since when it has not taken anything.
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
        let shown = shown.map(|shown| (shown.as_fd(), Awaited::Room));
        [(self.conn.as_fd(), Awaited::Data)].into_iter().chain(typed).chain(shown)
    }

    /// Something was said.
    pub(super) fn show(&mut self, text: &[u8]) {
        if self.shown.is_some() {
            if self.pending.is_empty() {
                self.since = Instant::now();
            }
            self.pending.extend_from_slice(text);
        }
    }

    /// Does what can be done now. Returns whether it is still there.
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
                    // The terminal may just have gone.
                    let _ = pty::resize(terminal.as_fd(), Size { rows, columns });
                }
                _ => return false,
            }
        }
    }

    /// What was typed goes to the terminal.
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
        if !is_ready(shown.as_fd(), Awaited::Room) {
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
