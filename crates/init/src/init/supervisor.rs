//! Queue of signals and ended children. No other code waits for children, so that no exit status is lost.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::signal::Signals;
use sandbox_protocol::exit::by_signal;

use super::signals::{self, Action};

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal(i32),
}

impl Ending {
    fn of(status: WaitStatus) -> Option<Self> {
        let code = status.exit_status().map(|code| Self::Code(u8::try_from(code).unwrap_or(1)));
        code.or_else(|| status.terminating_signal().map(Self::Signal))
    }

    /// Returns the exit code as a shell reports it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => by_signal(signal),
        }
    }
}

/// An event for PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A signal arrived.
    Signal(i32),
    /// A child or a reparented orphan ended.
    Ended(i32, Ending),
    /// The awaited descriptor is readable.
    Readable,
    /// Nothing happened in time.
    Timeout,
}

/// Reason why a wait for a process was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// A signal requested the shutdown.
    Signal(i32),
    /// The process took too long.
    Late,
}

/// Receiver of signals and exit statuses.
pub(crate) struct Supervisor {
    signals: Signals,
    events: VecDeque<Event>,
}

impl Supervisor {
    /// Blocks the handled signals, so that none is lost or ends this process. Makes this process the parent of orphans,
    /// even if it is not PID 1: `PR_SET_CHILD_SUBREAPER` in prctl(2).
    pub(crate) fn open() -> io::Result<Self> {
        let signals = Signals::of(signals::HANDLED)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Self { signals, events: VecDeque::new() })
    }

    /// Returns the next event, or `Timeout` at that time.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> io::Result<Event> {
        self.next_or(until, None)
    }

    /// Returns the next event, `Readable` once `other` is readable, or `Timeout`.
    pub(crate) fn next_or(
        &mut self,
        until: Option<Instant>,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Rounded up, because less than a millisecond would be no wait at all.
            let left =
                left.map(|left| u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX));
            let awaited = [Some(self.signals.as_fd()), other].into_iter().flatten();
            let awaited: Vec<_> = awaited.map(|fd| (fd, Awaited::Data)).collect();
            let happened = channel::wait(&awaited, left)?;
            if happened.first() == Some(&true) {
                self.collect()?;
            } else if happened.get(1) == Some(&true) {
                return Ok(Event::Readable);
            } else if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Event::Timeout);
            }
        }
    }

    fn collect(&mut self) -> io::Result<()> {
        while let Some(arrived) = self.signals.next()? {
            if signals::action(arrived.signal) != Action::Reap {
                self.events.push_back(Event::Signal(arrived.signal));
            }
        }
        // One SIGCHLD can stand for many ended children: signal(7).
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(ending) = Ending::of(status) {
                self.events.push_back(Event::Ended(pid.as_raw_pid(), ending));
            }
        }
        Ok(())
    }

    /// Waits until one process ends. Kills its process group on a signal that requests the shutdown, and after the
    /// limit.
    pub(crate) fn wait_for(
        &mut self,
        pid: i32,
        limit: Duration,
    ) -> io::Result<Result<Ending, Interrupted>> {
        let until = Instant::now() + limit;
        loop {
            let why = match self.next(Some(until))? {
                Event::Ended(ended, ending) if ended == pid => return Ok(Ok(ending)),
                Event::Signal(signal) if signals::action(signal) == Action::End => {
                    Interrupted::Signal(signal)
                }
                Event::Timeout => Interrupted::Late,
                Event::Signal(_) | Event::Ended(..) | Event::Readable => continue,
            };
            kill_group(pid, signals::KILL);
            while !matches!(self.next(None)?, Event::Ended(ended, _) if ended == pid) {}
            return Ok(Err(why));
        }
    }

    /// Returns the pending signal that requests the shutdown, if there is one.
    pub(crate) fn asked_to_end(&mut self) -> io::Result<Option<i32>> {
        self.collect()?;
        let ending = |event: &Event| match event {
            Event::Signal(signal) if signals::action(*signal) == Action::End => Some(*signal),
            _ => None,
        };
        Ok(self.events.iter().find_map(ending))
    }
}

/// Sends a signal to a process group. Ignores a group that no longer exists.
pub(crate) fn kill_group(group: i32, signal: i32) {
    if let (Some(group), Some(signal)) = (Pid::from_raw(group), Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Sends a signal to one process.
pub(crate) fn kill(pid: i32, signal: i32) {
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns true when a process exists, even as a zombie.
pub(crate) fn is_there(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
