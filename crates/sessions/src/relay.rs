//! Passes input, output, signals and terminal sizes between the user and a command in a session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{process, pty, socket};
use sandbox_protocol::exit::by_signal;

use crate::backend::{Connection, EndOfInput, Ended, Process};

/// What a pipe that has room at all has room for.
const STEP: usize = 4096;

/// Who asks so often that a command may end, and is not heard, goes alone.
const ENOUGH: usize = 3;

/// Takes the signals that are passed on.
pub fn signals() -> io::Result<Signals> {
    Signals::of(signal::ENDING.into_iter().chain([signal::WINCH]))
}

/// Stays beside a command until its end.
pub fn run(
    connection: Connection,
    signals: &Signals,
    [interactive, tty]: [bool; 2],
) -> io::Result<Ended> {
    Relay::new(connection, interactive)?.stay(signals, interactive && tty)
}

/// Stays beside an agent until it ends, or the user leaves by ^P ^Q.
pub fn watch(connection: Connection, signals: &Signals) -> io::Result<Ended> {
    let mut relay = Relay::new(connection, true)?;
    if let Some(input) = &mut relay.input {
        input.leave = Some(Leave::default());
    }
    relay.stay(signals, true)
}

/// How a turn of the relay ended.
enum Turn {
    /// With the command.
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
        let source = || if interactive { own(io::stdin().as_fd()) } else { socket::nothing() };
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
                // Only a shell that waits for us could wake us again.
                Turn::Stopped if keyboard && process::is_in_front() => process::stop_group()?,
                Turn::Stopped => {}
            }
            self.go_on();
        }
    }

    fn run(&mut self, signals: &Signals) -> io::Result<Turn> {
        let mut asked = 0;
        loop {
            let ended = self.pause(signals, None).and_then(|()| self.process.poll())?;
            let last = self.pass_on(signals, &mut asked)?;
            if let Some(ended) = ended {
                self.drain()?;
                return Ok(Turn::Ended(ended));
            }
            // Whoever is inside can hold everything in a session still, also who would tell of an end.
            if let Some(signal) = last.filter(|_| asked >= ENOUGH) {
                let code = by_signal(signal);
                let why = "the session does not answer; `agent-sandbox down` ends it".into();
                return Ok(Turn::Ended(Ended { code, why: Some(why) }));
            }
            if self.input.as_ref().is_some_and(Pump::is_left) {
                return Ok(Turn::Ended(Ended { code: 0, why: None }));
            }
            if self.process.stopped() {
                self.flush()?;
                return Ok(Turn::Stopped);
            }
        }
    }

    /// Continues a command that stopped. The terminal may have another size by now.
    fn go_on(&mut self) {
        self.resize();
        let _ = self.process.signal(signal::CONT);
    }

    /// Passes on what the command said before it stopped.
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

    /// Passes on what arrived; the last signal that asks for an end is told.
    fn pass_on(&mut self, signals: &Signals, asked: &mut usize) -> io::Result<Option<i32>> {
        let mut last = None;
        while let Some(arrived) = signals.next()? {
            if arrived.signal == signal::WINCH {
                self.resize();
                continue;
            }
            *asked += 1;
            last = Some(arrived.signal);
            // It may have ended just now.
            let _ = self.process.signal(arrived.signal);
        }
        Ok(last)
    }

    /// Waits until something happens, and moves what can be moved.
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
                // Closing our end tells the command that nothing more comes, unless it has a terminal.
                drop(input);
            }
        }
        self.outputs.retain_mut(|output| moved.next() != Some(true) || output.step());
        Ok(())
    }

    /// What the command said before its end is still to come; what others hold open is not awaited.
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
            // There is nobody to tell if it ended just now.
            let _ = self.process.resize(size);
        }
    }
}

/// From here to there, without ever waiting for one side alone.
struct Pump {
    from: OwnedFd,
    to: OwnedFd,
    text: Vec<u8>,
    at: usize,
    /// The last byte that was read.
    last: Option<u8>,
    /// What is written after everything that was read.
    end: EndOfInput,
    /// Nothing more is read.
    ended: bool,
    /// Looks for the keys by which the user leaves, where there are such.
    leave: Option<Leave>,
}

/// ^P and ^Q, one after the other: the user leaves.
#[derive(Default)]
struct Leave {
    first: bool,
    left: bool,
}

impl Leave {
    const KEYS: [u8; 2] = [0x10, 0x11];

    /// Takes the keys out of what was typed. What stands before them is typed all the same.
    fn look(&mut self, text: &mut Vec<u8>) {
        let mut kept = Vec::with_capacity(text.len() + 1);
        for key in text.drain(..) {
            if self.first && key == Self::KEYS[1] {
                self.left = true;
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
        Self { from, to, text, at: 0, last: None, end, ended: false, leave: None }
    }

    fn is_left(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.left)
    }

    fn is_empty(&self) -> bool {
        self.at == self.text.len()
    }

    fn awaited(&self) -> (BorrowedFd<'_>, Awaited) {
        if self.is_empty() {
            (self.from.as_fd(), Awaited::Data)
        } else {
            (self.to.as_fd(), Awaited::Room)
        }
    }

    /// Reads if there is nothing to write, else writes. Returns whether it goes on.
    fn step(&mut self) -> bool {
        if self.is_empty() {
            return !self.ended && self.fill();
        }
        let end = self.text.len().min(self.at + STEP);
        match channel::write(self.to.as_fd(), &self.text[self.at..end]) {
            Ok(written) => self.at += written,
            // Nobody reads any more.
            Err(_) => return false,
        }
        true
    }

    /// Reads, or takes what tells the end. Returns false when there is nothing to write.
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
        if let Some(leave) = &mut self.leave {
            leave.look(&mut self.text);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Leave;

    #[test]
    fn leave_finds_its_keys_also_when_they_come_apart() {
        for (pieces, typed, left) in [
            (&[&b"ab"[..]][..], &b"ab"[..], false),
            (&[b"a\x10\x11b"], b"a", true),
            (&[b"a\x10", b"\x11"], b"a", true),
            (&[b"\x10", b"x"], b"\x10x", false),
            (&[b"\x10\x10\x11"], b"\x10", true),
            (&[b"\x11\x10"], b"\x11", false),
        ] {
            let mut leave = Leave::default();
            let mut all = Vec::new();
            for piece in pieces {
                let mut text = piece.to_vec();
                leave.look(&mut text);
                all.extend(text);
            }
            assert_eq!((&all[..], leave.left), (typed, left), "{pieces:?}");
        }
    }
}
