//! Relay of input, output, signals and terminal sizes between the user and a command in a session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{process, pty, socket};
use sandbox_protocol::exit::by_signal;

use crate::backend::{Connection, EndOfInput, Ended, Process};

/// Maximum size of a write. A pipe that poll(2) reports as writable takes `PIPE_BUF` bytes without
/// blocking (pipe(7)).
const STEP: usize = 4096;

/// Number of ending signals after which the relay stops waiting for a command that does not react.
const GIVE_UP_AFTER: usize = 3;

/// Installs handlers for the signals that are forwarded.
pub fn signals() -> io::Result<Signals> {
    Signals::of(signal::ENDING.into_iter().chain([signal::WINCH]))
}

/// Relays until the command ends.
pub fn run(
    connection: Connection,
    signals: &Signals,
    [interactive, tty]: [bool; 2],
) -> io::Result<Ended> {
    Relay::new(connection, interactive)?.stay(signals, interactive && tty)
}

/// Relays until the agent ends, or the user detaches with ^P ^Q.
pub fn watch(connection: Connection, signals: &Signals) -> io::Result<Ended> {
    let mut relay = Relay::new(connection, true)?;
    if let Some(input) = &mut relay.input {
        input.detach = Some(DetachKeys::default());
    }
    relay.stay(signals, true)
}

/// Reason why the relay returned.
enum Turn {
    /// The command ended.
    Ended(Ended),
    /// The command stopped, as by ^Z.
    Stopped,
}

struct Relay {
    process: Box<dyn Process>,
    input: Option<Pump>,
    outputs: Vec<Pump>,
}

impl Relay {
    fn new(connection: Connection, interactive: bool) -> io::Result<Self> {
        let Connection { stdin, stdout, stderr, end_of_input, process } = connection;
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
        let source = || if interactive { own(io::stdin().as_fd()) } else { socket::dev_null() };
        let input = match stdin.filter(|_| interactive || end_of_input == EndOfInput::Key) {
            Some(to) => Some(Pump { end: end_of_input, ..Pump::new(source()?, to) }),
            None => None,
        };
        let mut outputs = Vec::new();
        if let Some(from) = stdout {
            outputs.push(Pump::new(from, own(io::stdout().as_fd())?));
        }
        if let Some(from) = stderr {
            outputs.push(Pump::new(from, own(io::stderr().as_fd())?));
        }
        Ok(Self { process, input, outputs })
    }

    fn stay(mut self, signals: &Signals, keys: bool) -> io::Result<Ended> {
        let stdin = io::stdin();
        let keyboard = keys && pty::is_terminal(stdin.as_fd());
        loop {
            let turn = {
                let _raw = keyboard.then(|| pty::Raw::begin(stdin.as_fd())).transpose()?;
                self.run(signals)?
            };
            match turn {
                Turn::Ended(ended) => return Ok(ended),
                // Stop this process only in the foreground of a shell that can continue it.
                Turn::Stopped if keyboard && process::is_foreground() => process::stop_group()?,
                Turn::Stopped => {}
            }
            self.resume();
        }
    }

    fn run(&mut self, signals: &Signals) -> io::Result<Turn> {
        let mut requests = 0;
        loop {
            let ended = self.pause(signals, None).and_then(|()| self.process.poll())?;
            let last = self.pass_on(signals, &mut requests)?;
            if let Some(ended) = ended {
                self.drain()?;
                return Ok(Turn::Ended(ended));
            }
            // A process inside can freeze all others of its session, including the one that would report the end.
            if let Some(signal) = last.filter(|_| requests >= GIVE_UP_AFTER) {
                let code = by_signal(signal);
                let why = "the session does not respond; to end it: agent-sandbox down".into();
                return Ok(Turn::Ended(Ended { code, why: Some(why) }));
            }
            if self.input.as_ref().is_some_and(Pump::is_detached) {
                return Ok(Turn::Ended(Ended { code: 0, why: None }));
            }
            if self.process.stopped() {
                self.flush()?;
                return Ok(Turn::Stopped);
            }
        }
    }

    /// Continues a stopped command. The terminal size may have changed meanwhile.
    fn resume(&mut self) {
        self.resize();
        let _ = self.process.signal(signal::CONT);
    }

    /// Forwards output that the command wrote before it stopped.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            let fds: Vec<_> = self.outputs.iter().map(Pump::awaited).collect();
            let ready = channel::wait(&fds, Some(0))?;
            if !ready.contains(&true) {
                return Ok(());
            }
            let mut ready = ready.into_iter();
            self.outputs.retain_mut(|output| ready.next() != Some(true) || output.step());
        }
    }

    /// Forwards pending signals. Counts those that ask for an end, and returns the last one.
    fn pass_on(&mut self, signals: &Signals, requests: &mut usize) -> io::Result<Option<i32>> {
        let mut last = None;
        while let Some(arrived) = signals.next()? {
            if arrived.signal == signal::WINCH {
                self.resize();
                continue;
            }
            *requests += 1;
            last = Some(arrived.signal);
            // The command may have ended already.
            let _ = self.process.signal(arrived.signal);
        }
        Ok(last)
    }

    /// Waits for an event, and moves what can be moved.
    fn pause(&mut self, signals: &Signals, limit: Option<u64>) -> io::Result<()> {
        let pumps = self.input.iter().chain(&self.outputs);
        let mut fds =
            vec![(signals.as_fd(), Awaited::Data), (self.process.awaited(), Awaited::Data)];
        fds.extend(pumps.map(Pump::awaited));
        let ready = channel::wait(&fds, limit)?;
        let mut moved = ready.into_iter().skip(2);
        if self.input.is_some() {
            let ready = moved.next() == Some(true);
            if let Some(input) = self.input.take_if(|input| ready && !input.step()) {
                // Closing the write end signals end of input, unless the command has a terminal.
                drop(input);
            }
        }
        self.outputs.retain_mut(|output| moved.next() != Some(true) || output.step());
        Ok(())
    }

    /// Forwards output that is still in the pipes. Does not wait for other processes that hold them
    /// open.
    fn drain(&mut self) -> io::Result<()> {
        self.input = None;
        while !self.outputs.is_empty() {
            let fds: Vec<_> = self.outputs.iter().map(Pump::awaited).collect();
            let limit =
                if self.outputs.iter().any(|pump| !pump.is_empty()) { None } else { Some(0) };
            let ready = channel::wait(&fds, limit)?;
            if !ready.contains(&true) {
                break;
            }
            let mut ready = ready.into_iter();
            self.outputs.retain_mut(|output| ready.next() != Some(true) || output.step());
        }
        Ok(())
    }

    fn resize(&mut self) {
        if let Ok(size) = pty::size(io::stdin().as_fd()) {
            // The command may have ended already.
            let _ = self.process.resize(size);
        }
    }
}

/// One direction of the relay. It never blocks on a single end.
struct Pump {
    from: OwnedFd,
    to: OwnedFd,
    text: Vec<u8>,
    at: usize,
    /// Last byte that was read.
    last: Option<u8>,
    /// Text that is written after the end of input.
    end: EndOfInput,
    /// True after the end of input.
    ended: bool,
    /// Detach keys to look for.
    detach: Option<DetachKeys>,
}

/// Detector of ^P ^Q, with which the user detaches.
#[derive(Default)]
struct DetachKeys {
    first: bool,
    detached: bool,
}

impl DetachKeys {
    const KEYS: [u8; 2] = [0x10, 0x11];

    /// Removes the keys from the input. Input before them is kept.
    fn scan(&mut self, text: &mut Vec<u8>) {
        let mut kept = Vec::with_capacity(text.len() + 1);
        for key in text.drain(..) {
            if self.first && key == Self::KEYS[1] {
                self.detached = true;
                break;
            }
            if self.first {
                kept.push(Self::KEYS[0]);
            }
            self.first = key == Self::KEYS[0];
            if !self.first {
                kept.push(key);
            }
        }
        *text = kept;
    }
}

impl Pump {
    fn new(from: OwnedFd, to: OwnedFd) -> Self {
        let (text, end) = (Vec::new(), EndOfInput::Closed);
        Self { from, to, text, at: 0, last: None, end, ended: false, detach: None }
    }

    fn is_detached(&self) -> bool {
        self.detach.as_ref().is_some_and(|keys| keys.detached)
    }

    fn is_empty(&self) -> bool {
        self.at == self.text.len()
    }

    fn awaited(&self) -> (BorrowedFd<'_>, Awaited) {
        if self.is_empty() {
            (self.from.as_fd(), Awaited::Data)
        } else {
            (self.to.as_fd(), Awaited::Writable)
        }
    }

    /// Writes pending data, else reads. Returns false when this direction is finished.
    fn step(&mut self) -> bool {
        if self.is_empty() {
            return !self.ended && self.fill();
        }
        let end = self.text.len().min(self.at + STEP);
        match channel::write(self.to.as_fd(), &self.text[self.at..end]) {
            Ok(written) => self.at += written,
            // The reader has closed its end.
            Err(_) => return false,
        }
        true
    }

    /// Reads, or takes the text that signals the end. Returns false when there is nothing to write.
    fn fill(&mut self) -> bool {
        self.text.resize(16 * STEP, 0);
        self.at = 0;
        let read = channel::read(self.from.as_fd(), &mut self.text).unwrap_or(0);
        self.text.truncate(read);
        self.ended = read == 0;
        if self.ended {
            self.text.extend(self.end.text(self.last));
            return !self.text.is_empty();
        }
        self.last = self.text.last().copied();
        if let Some(keys) = &mut self.detach {
            keys.scan(&mut self.text);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::DetachKeys;

    #[test]
    fn detach_keys_are_found_when_they_arrive_in_pieces() {
        for (pieces, typed, detached) in [
            (&[&b"ab"[..]][..], &b"ab"[..], false),
            (&[b"a\x10\x11b"], b"a", true),
            (&[b"a\x10", b"\x11"], b"a", true),
            (&[b"\x10", b"x"], b"\x10x", false),
            (&[b"\x10\x10\x11"], b"\x10", true),
            (&[b"\x11\x10"], b"\x11", false),
        ] {
            let mut keys = DetachKeys::default();
            let mut all = Vec::new();
            for piece in pieces {
                let mut text = piece.to_vec();
                keys.scan(&mut text);
                all.extend(text);
            }
            assert_eq!((&all[..], keys.detached), (typed, detached), "{pieces:?}");
        }
    }
}
