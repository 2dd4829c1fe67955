//! Pausing all processes of a sandbox.
//!
//! A child process stops them and continues them when the caller releases them or dies, so a killed caller leaves no
//! process stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::process::{self, Child, ProcessHandle};

/// Time limit for all processes to stop. One that exceeds it is in uninterruptible sleep, and the pause fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes that stay stopped until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    hold: Option<OwnedFd>,
    child: Child,
}

/// Stops everything inside the sandbox that the process `beside` started. A bubblewrap process around it keeps running,
/// because its stop would look like ^Z on the terminal.
///
/// Fails if the process has other threads, as [`process::fork`] does.
pub fn freeze(beside: i32) -> io::Result<Frozen> {
    let (ready, told) = pipe_with(PipeFlags::CLOEXEC)?;
    let (until, hold) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut ends = Some((ready, hold));
    let child = process::fork(|| {
        // Only the caller may hold these ends open.
        drop(ends.take());
        i32::from(hold_stopped(beside, told, until).is_err())
    })?;
    let (ready, hold) = ends.ok_or_else(|| io::Error::other("no pipe"))?;
    let frozen = Frozen { hold: Some(hold), child };
    let mut answer = [0];
    let mut ready = std::fs::File::from(ready);
    // The child has the only write end, so its death ends this read.
    match ready.read(&mut answer)? {
        1 if answer == *b"1" => Ok(frozen),
        _ => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.hold.take());
        // The closed pipe makes the child exit. `drop` cannot report an error.
        let _ = self.child.wait();
    }
}

/// Runs the child: stops the processes, reports the result, waits for the caller, and continues the processes.
fn hold_stopped(beside: i32, told: OwnedFd, until: OwnedFd) -> io::Result<()> {
    // ^C on the terminal may kill the caller, but not this process.
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

/// Processes that were stopped here, in order.
#[derive(Default)]
struct Stopped {
    seen: BTreeSet<i32>,
    handles: Vec<ProcessHandle>,
}

impl Stopped {
    /// Stops processes until no new one appears, because one may fork while the others are being stopped.
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
        // A process that the user stopped must stay stopped afterwards.
        if process::is_stopped(pid) {
            return;
        }
        if let Ok(handle) = ProcessHandle::open(pid)
            && handle.signal(Signal::STOP.as_raw()).is_ok()
        {
            self.handles.push(handle);
        }
    }

    /// Continues the processes, children first: a shell must not find its jobs stopped when it continues.
    fn release(&self) {
        for handle in self.handles.iter().rev() {
            // The process may have been killed.
            let _ = handle.signal(Signal::CONT.as_raw());
        }
    }
}

/// Returns true once a process that got `SIGSTOP` no longer runs.
fn is_held(pid: i32, inside: &[i32]) -> bool {
    match state(pid) {
        None | Some('T' | 't' | 'Z' | 'X') => true,
        // After vfork(2) the parent is in state D until the child calls execve(2). Only the child can stop.
        Some('D') => inside
            .iter()
            .any(|child| process::parent_of(*child) == Some(pid) && process::is_stopped(*child)),
        Some(_) => false,
    }
}

/// Returns the state letter of a process: `proc_pid_stat(5)`.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns all descendants of a process, parents first. Of its direct children, only those that are PID 1 of a PID
/// namespace are included. PID 1 is stopped before the command and continued after it, so it does not see the command
/// stop.
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

/// Returns true if a process is PID 1 of its PID namespace: `NSpid` in `proc_pid_status(5)`.
fn is_first(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().nth(1).is_some() && numbers.split_whitespace().last() == Some("1")
}
