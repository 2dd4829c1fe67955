//! Holding all processes of a sandbox still for a moment.
//!
//! A child of ours stops them and lets them go again when we say so, or when we are gone: a killed
//! caller leaves nobody stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::process::{self, Child, ProcessHandle};

/// A process that does not stop within this time is asleep in the kernel: nothing is held then.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes that are held still until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    hold: Option<OwnedFd>,
    child: Child,
}

/// Stops everything inside the sandbox that the process `beside` started. A bubblewrap around it
/// goes on: its being stopped would look like a key pressed on the terminal.
///
/// Fails if the process has other threads, as [`process::fork`] does.
pub fn freeze(beside: i32) -> io::Result<Frozen> {
    let (ready, told) = pipe_with(PipeFlags::CLOEXEC)?;
    let (until, hold) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut ends = Some((ready, hold));
    let child = process::fork(|| {
        // Only the caller's own end may keep the pipe open.
        drop(ends.take());
        i32::from(keep(beside, told, until).is_err())
    })?;
    let (ready, hold) = ends.ok_or_else(|| io::Error::other("no pipe"))?;
    let frozen = Frozen { hold: Some(hold), child };
    let mut answer = [0];
    let mut ready = std::fs::File::from(ready);
    // The other end is open in the child alone once ours is gone.
    match ready.read(&mut answer)? {
        1 if answer == *b"1" => Ok(frozen),
        _ => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.hold.take());
        // It ends by itself now; nobody is left to tell if it does not.
        let _ = self.child.wait();
    }
}

/// The child: stop, say so, wait for the caller's end, let go.
fn keep(beside: i32, told: OwnedFd, until: OwnedFd) -> io::Result<()> {
    // A key on the terminal that ends the caller must not end this one.
    rustix::process::setsid()?;
    let mut stopped = Stopped::default();
    let all = stopped.stop(beside);
    let answer: &[u8] = if all.is_ok() { b"1" } else { b"0" };
    std::fs::File::from(told).write_all(answer)?;
    if all.is_ok() {
        let mut rest = Vec::new();
        std::fs::File::from(until).read_to_end(&mut rest)?;
    }
    stopped.release();
    all
}

/// Processes that were stopped here, in the order of their stopping.
#[derive(Default)]
struct Stopped {
    seen: BTreeSet<i32>,
    handles: Vec<ProcessHandle>,
}

impl Stopped {
    /// Stops until nobody new appears: a process may fork while the others are being stopped.
    fn stop(&mut self, beside: i32) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let inside = inside(beside)?;
            let new: Vec<i32> =
                inside.iter().copied().filter(|pid| !self.seen.contains(pid)).collect();
            for pid in &new {
                self.stop_one(*pid);
            }
            if new.is_empty() && inside.iter().all(|pid| is_held(*pid, &inside)) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop_one(&mut self, pid: i32) {
        self.seen.insert(pid);
        // What the user stopped stays stopped afterwards.
        if process::is_stopped(pid) {
            return;
        }
        if let Ok(handle) = ProcessHandle::open(pid)
            && handle.signal(Signal::STOP.as_raw()).is_ok()
        {
            self.handles.push(handle);
        }
    }

    /// Children first: a shell that wakes up must not find them stopped.
    fn release(&self) {
        for handle in self.handles.iter().rev() {
            // It may have been killed meanwhile.
            let _ = handle.signal(Signal::CONT.as_raw());
        }
    }
}

/// Whether a process that was told to stop does nothing any more.
fn is_held(pid: i32, inside: &[i32]) -> bool {
    match state(pid) {
        None | Some('T' | 't' | 'Z' | 'X') => true,
        // One that has made a child by `vfork` sleeps until that one starts a program of its own,
        // and does not stop before; the child does.
        Some('D') => inside
            .iter()
            .any(|child| process::parent_of(*child) == Some(pid) && process::is_stopped(*child)),
        Some(_) => false,
    }
}

/// The letter of `proc_pid_stat(5)`.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// All descendants of a process, parents first; of its children only those that are the first of a
/// PID namespace. Such a one is stopped before the command and woken after it, and so does not see
/// the command stop.
fn inside(beside: i32) -> io::Result<Vec<i32>> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
            && let Some(parent) = process::parent_of(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let of = |pid: &i32| children.get(pid).cloned().unwrap_or_default();
    let around = of(&beside);
    let mut found: Vec<i32> = around.iter().copied().filter(|pid| is_first(*pid)).collect();
    let others: Vec<i32> = around.into_iter().filter(|pid| !is_first(*pid)).collect();
    found.extend(others.iter().flat_map(of));
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let below = of(pid);
        found.extend(below);
        next += 1;
    }
    Ok(found)
}

/// Whether a process is the first of its PID namespace: `proc_pid_status(5)` on `NSpid`.
fn is_first(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().nth(1).is_some() && numbers.split_whitespace().last() == Some("1")
}
