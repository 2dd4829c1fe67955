//! The personality `attend`: runs a command like `enter`, and stays beside it. The caller sends frames on standard
//! input. So the end of the command's input differs from the end of the caller, at which the command is killed.
//!
//! If the command does not read its input, the buffer of this process fills. It then stops reading, and would not
//! notice the end of the caller. A caller with much input starts a `guard` first, which reads only for the end of its
//! input.
//!
//! The command writes directly to the caller's streams. With a terminal, this process opens one and copies its output
//! to standard output. It then writes one byte, [`STOPPED`], to standard error whenever the command stops.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::process::{self, Change, Child, ProcessHandle, Program};
use sandbox_linux::pty::{self, Size};
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{fd, socket};
use sandbox_protocol::attend::{Frame, STOPPED, terminal_size};
use sandbox_protocol::exit::{ExitCode, by_signal};
use sandbox_protocol::multicall::Personality;

use crate::enter::{self, Fatal, LOG};
use crate::identity;
use crate::init::{kill, kill_group};

/// Byte with which a guard reports that it is watching.
const WATCHING: u8 = b'.';
/// Number of bytes that a writable pipe accepts at least, `PIPE_BUF`: pipe(7).
const STEP: usize = 4096;
/// Limit of buffered input. Beyond it, this process stops reading from the caller.
const WAITING: usize = 1 << 20;
/// Maximum number of scans for processes that may still fork.
const ROUNDS: usize = 50;
/// Character that ends the input of a terminal.
const END_KEY: u8 = 0x04;

/// Runs the command until it or the caller ends.
pub(crate) fn run(words: &[OsString]) -> std::process::ExitCode {
    let attended = split(words).and_then(|(size, words)| {
        let (program, path) = enter::prepare(words)?;
        attend(&program, path, size)
    });
    match attended {
        Ok(code) => code.into(),
        Err(error) => {
            LOG.error(&error);
            error.code().into()
        }
    }
}

/// Splits the arguments into the size of the terminal (`-` for none) and the command.
fn split(words: &[OsString]) -> Result<(Option<Size>, &[OsString]), Fatal> {
    let (first, rest) = words.split_first().ok_or(Fatal::NoCommand)?;
    let size = first.to_str().and_then(terminal_size);
    Ok((size.map(|(rows, columns)| Size { rows, columns }), rest))
}

fn attend(program: &Program, path: PathBuf, size: Option<Size>) -> Result<u8, Fatal> {
    // Before the fork, so that no exit is missed. SIGHUP is sent when this session leader closes its terminal.
    let signals = Signals::of([signal::CHILD, signal::HUP])?;
    let mut held = match size {
        Some(size) => on_terminal(program, path, size)?,
        None => by_pipe(program, path)?,
    };
    Ok(held.stay(&signals)?)
}

/// Starts the command with the caller's standard output and standard error, and with a pipe as its input.
fn by_pipe(program: &Program, path: PathBuf) -> io::Result<Held> {
    let (theirs, ours) = socket::pipe()?;
    let parent = process::pid();
    let child = process::fork(|| {
        begin(program, path, parent, || {
            process::lead_session()?;
            fd::replace(0, &theirs)
        })
    })?;
    // The streams must end with the command, not with this process.
    let nothing = socket::dev_null()?;
    fd::replace(1, &nothing)?;
    fd::replace(2, &nothing)?;
    Ok(Held::of(child, ours, None))
}

/// Starts the command on a new terminal. The command has a separate process group in this process's session, because a
/// terminal never stops an orphaned process group: setpgid(2).
fn on_terminal(program: &Program, path: PathBuf, size: Size) -> io::Result<Held> {
    let (ours, theirs) = pty::open(size)?;
    pty::take_control(theirs.as_fd())?;
    socket::set_nonblocking(ours.as_fd())?;
    let parent = process::pid();
    let child = process::fork(|| {
        begin(program, path, parent, || {
            // A background process that calls tcsetpgrp(3) is stopped by SIGTTOU, unless it blocks that signal.
            let _blocked = Signals::of([rustix::process::Signal::TTOU.as_raw()])?;
            pty::take_foreground(theirs.as_fd())?;
            (0..3).try_for_each(|number| fd::replace(number, &theirs))
        })
    })?;
    let input = socket::copy(ours.as_fd())?;
    Ok(Held::of(child, input, Some(Terminal { ours, _theirs: theirs })))
}

/// Executes the command. Returns the exit code of a failure.
fn begin(
    program: &Program,
    path: PathBuf,
    parent: i32,
    streams: impl FnOnce() -> io::Result<()>,
) -> i32 {
    let ready = process::die_with_parent(parent)
        .and_then(|()| streams())
        .and_then(|()| fd::close_all_on_exec())
        .and_then(|()| signal::reset_for_exec());
    let error = match ready {
        Ok(()) => Fatal::Exec { source: program.exec_path(path.as_os_str()), program: path },
        Err(error) => Fatal::System(error),
    };
    LOG.error(&error);
    error.code().into()
}

/// Input that the command has not read yet.
#[derive(Default)]
struct Typed {
    /// Bytes of incomplete frames.
    raw: Vec<u8>,
    /// Bytes for the command.
    text: Vec<u8>,
    /// The last byte of the input.
    last: Option<u8>,
    /// True after the end of the input.
    ended: bool,
}

/// A terminal: our end and the command's. The command's end stays open, so that ours does not hang up before the
/// command ends.
struct Terminal {
    ours: OwnedFd,
    _theirs: OwnedFd,
}

/// A command with this process beside it.
struct Held {
    child: Child,
    input: Option<OwnedFd>,
    terminal: Option<Terminal>,
    typed: Typed,
    said: Vec<u8>,
}

impl Held {
    fn of(child: Child, input: OwnedFd, terminal: Option<Terminal>) -> Self {
        Self { child, input: Some(input), terminal, typed: Typed::default(), said: Vec::new() }
    }

    fn stay(&mut self, signals: &Signals) -> io::Result<u8> {
        loop {
            let [caller, heard, room, said] = self.pause(signals)?;
            let is_there = (!caller || self.hear()) && (!heard || self.speak());
            if !is_there {
                end_sessions(process::pid(), self.child.pid());
                return Ok(by_signal(signal::KILL));
            }
            if room {
                self.pass_on();
            }
            if said {
                self.listen();
            }
            while signals.next()?.is_some() {}
            match self.child.poll()? {
                Some(Change::Exited(code)) => return Ok(self.ended(code)),
                Some(Change::Killed(signal)) => return Ok(self.ended(by_signal(signal).into())),
                Some(Change::Stopped(_)) if self.terminal.is_some() => {
                    let _ = channel::write(rustix::stdio::stderr(), &[STOPPED]);
                }
                // Without a terminal, the user continues the command.
                _ => {}
            }
        }
    }

    /// Waits until the caller can be read from or written to, or the command can.
    fn pause(&self, signals: &Signals) -> io::Result<[bool; 4]> {
        let full = self.typed.text.len() + self.typed.raw.len() >= WAITING;
        let room = self.input.as_ref().filter(|_| !self.typed.text.is_empty());
        let said = self.terminal.as_ref().filter(|_| self.said.is_empty());
        let wanted: [Option<(BorrowedFd<'_>, Awaited)>; 4] = [
            (!full).then(|| (rustix::stdio::stdin(), Awaited::Data)),
            (!self.said.is_empty()).then(|| (rustix::stdio::stdout(), Awaited::Writable)),
            room.map(|input| (input.as_fd(), Awaited::Writable)),
            said.map(|terminal| (terminal.ours.as_fd(), Awaited::Data)),
        ];
        let mut fds = vec![(signals.as_fd(), Awaited::Data)];
        fds.extend(wanted.iter().flatten().copied());
        let mut ready = channel::wait(&fds, None)?.into_iter().skip(1);
        Ok(wanted.map(|one| one.is_some() && ready.next() == Some(true)))
    }

    /// Reads frames. Returns false when the caller is gone.
    fn hear(&mut self) -> bool {
        let mut piece = vec![0; 16 * STEP];
        let Ok(count @ 1..) = channel::read(rustix::stdio::stdin(), &mut piece) else {
            return false;
        };
        self.typed.raw.extend(&piece[..count]);
        let mut raw = std::mem::take(&mut self.typed.raw);
        let mut taken = 0;
        while let Some((frame, length)) = Frame::first(&raw[taken..]) {
            match frame {
                Frame::Input(text) => {
                    self.typed.last = text.last().copied().or(self.typed.last);
                    self.typed.text.extend(text);
                }
                Frame::End => self.end_input(),
                Frame::Resize((rows, columns)) => {
                    if let Some(terminal) = &self.terminal {
                        let _ = pty::resize(terminal.ours.as_fd(), Size { rows, columns });
                    }
                }
                Frame::Unknown => {}
            }
            taken += length;
        }
        raw.drain(..taken);
        self.typed.raw = raw;
        if self.typed.ended && self.typed.text.is_empty() {
            self.input = None;
        }
        true
    }

    /// Ends the command's input. A pipe is closed once everything is written. A terminal has a character for it, which
    /// in the middle of a line must be sent twice: `VEOF` in termios(3).
    fn end_input(&mut self) {
        if self.terminal.is_none() {
            self.typed.ended = true;
            return;
        }
        let half = self.typed.last.is_some_and(|last| !matches!(last, b'\n' | b'\r'));
        self.typed.text.extend(if half { &[END_KEY, END_KEY][..] } else { &[END_KEY] });
    }

    fn pass_on(&mut self) {
        let Some(input) = &self.input else { return };
        let length = self.typed.text.len().min(STEP);
        match channel::write(input.as_fd(), &self.typed.text[..length]) {
            Ok(count) => drop(self.typed.text.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                // The command closed its input. Later input is dropped.
                self.input = None;
                self.typed.text.clear();
            }
        }
        if self.typed.ended && self.typed.text.is_empty() {
            self.input = None;
        }
        if self.input.is_none() {
            self.typed.text.clear();
        }
    }

    /// Reads the command's output from its terminal. Returns false when there is none right now.
    fn listen(&mut self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        let mut piece = vec![0; STEP];
        let count = channel::read(terminal.ours.as_fd(), &mut piece).unwrap_or(0);
        self.said.extend(&piece[..count]);
        count > 0
    }

    /// Writes output to the caller. Returns false when the caller is gone.
    fn speak(&mut self) -> bool {
        let length = self.said.len().min(STEP);
        match channel::write(rustix::stdio::stdout(), &self.said[..length]) {
            Ok(count) => {
                self.said.drain(..count);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Writes the remaining output of the command, and returns the exit code.
    fn ended(&mut self, code: i32) -> u8 {
        loop {
            while !self.said.is_empty() {
                if !self.speak() {
                    self.said.clear();
                }
            }
            if !self.listen() {
                return u8::try_from(code).unwrap_or(u8::MAX);
            }
        }
    }
}

/// Sends a signal to a command that has entered, and to the processes that it started.
pub(crate) fn signal(words: &[OsString]) -> std::process::ExitCode {
    let number = |word: &OsString| word.to_str()?.parse::<i32>().ok().filter(|n| *n > 0);
    let given: Option<Vec<i32>> = words.iter().map(number).collect();
    match given.as_deref() {
        // PID 1 must not be signalled: its end is the end of the container.
        Some([signal, pid]) if *pid > 1 && identity::stay().is_ok() => {
            if !signal_attended(*pid, *signal) {
                kill_group(*pid, *signal);
                kill(*pid, *signal);
            }
            ExitCode::Success.into()
        }
        _ => ExitCode::Usage.into(),
    }
}

/// Kills an attended command at the end of standard input. Exits when the process that attends it ends.
pub(crate) fn guard(words: &[OsString]) -> std::process::ExitCode {
    let pid = words.first().and_then(|word| word.to_str()?.parse().ok());
    let Some(pid) = pid.filter(|pid| *pid > 1 && identity::stay().is_ok()) else {
        return ExitCode::Usage.into();
    };
    match watch(pid) {
        Ok(()) => ExitCode::Success.into(),
        Err(error) => {
            LOG.error(&Fatal::System(error));
            ExitCode::Failure.into()
        }
    }
}

fn watch(pid: i32) -> io::Result<()> {
    let attendant = ProcessHandle::open(pid)?;
    channel::write(rustix::stdio::stdout(), &[WATCHING])?;
    let stdin = rustix::stdio::stdin();
    let both = [(attendant.as_fd(), Awaited::Data), (stdin, Awaited::Data)];
    loop {
        match channel::wait(&both, None)?[..] {
            [true, _] => return Ok(()),
            [_, true] if !matches!(channel::read(stdin, &mut [0; STEP]), Ok(1..)) => {
                signal_attended(pid, signal::KILL);
                return Ok(());
            }
            _ => {}
        }
    }
}

/// Sends a signal to the command that a process attends. Returns false when it attends none.
fn signal_attended(attendant: i32, number: i32) -> bool {
    let words = std::fs::read(format!("/proc/{attendant}/cmdline")).unwrap_or_default();
    if words.split(|byte| *byte == 0).nth(1) != Some(Personality::Attend.word().as_bytes()) {
        return false;
    }
    let Some(command) = processes().find(|pid| process::parent_of(*pid) == Some(attendant)) else {
        return false;
    };
    if number == signal::KILL {
        end_sessions(attendant, command);
        return true;
    }
    // Before it leads a process group, only the process itself can be signalled.
    if process::signal_group(command, number).is_err() {
        kill(command, number);
    }
    // A stopped process could not handle the signal.
    if signal::ENDING.contains(&number) {
        kill_group(command, signal::CONT);
    }
    true
}

/// Kills all processes in the sessions of the attendant and its command, except the attendant.
fn end_sessions(attendant: i32, command: i32) {
    let session = |pid: i32| rustix::process::getsid(rustix::process::Pid::from_raw(pid)).ok();
    let sessions = [session(attendant), session(command)];
    // The next scan finds processes that are forked meanwhile.
    for _ in 0..ROUNDS {
        let theirs = |pid: &i32| *pid != attendant && sessions.contains(&session(*pid));
        let found: Vec<i32> = processes().filter(theirs).filter(|pid| *pid > 1).collect();
        let alive = found.iter().filter(|pid| !is_dead(**pid));
        if alive.map(|pid| kill(*pid, signal::KILL)).count() == 0 {
            return;
        }
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns true for a zombie.
fn is_dead(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_knows_a_size_from_no_terminal() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let sized = words("33x101 stty size");
        let (size, rest) = split(&sized).unwrap();
        assert_eq!((size, rest.len()), (Some(Size { rows: 33, columns: 101 }), 2));
        assert_eq!(split(&words("- 1x2")).unwrap().0, None);
        assert!(split(&[]).is_err());
    }
}
