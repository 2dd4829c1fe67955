//! All processes below this one, however they tried to get away.
//!
//! A process group is left by `setsid`, a parent by a second fork. Who adopts orphans loses none of them: what is left
//! of a tree when its first process has ended are children of ours, or children of those.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::{Change, change};

/// How long a killed process may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes this process the parent of every orphan below it.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Sends this process a signal when its parent ends, and fails if that has happened already.
pub fn end_with_parent(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_pid() == parent => Ok(()),
        _ => Err(io::Error::other("the parent process has ended")),
    }
}

/// Waits until a child has ended, any of them; `None` when there is none left.
pub fn wait_any() -> io::Result<Option<(i32, Change)>> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                if let Some(change) = change(status) {
                    return Ok(Some((pid.as_raw_pid(), change)));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A child that has ended, if there is one, without waiting.
pub fn reap() -> io::Result<Reaped> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Ok(Reaped::One(pid.as_raw_pid())),
        Ok(None) | Err(rustix::io::Errno::INTR) => Ok(Reaped::NoneYet),
        Err(rustix::io::Errno::CHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error.into()),
    }
}

/// What a look at the children found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This one had ended.
    One(i32),
    /// All of them still run.
    NoneYet,
    /// There are no children.
    NoChildren,
}

/// Sends a signal to a process group.
pub fn signal_group(leader: i32, signal: i32) -> io::Result<()> {
    if leader <= 1 || !(1..=64).contains(&signal) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: no memory is passed. Unlike rustix's call, this one takes real-time signals.
    match unsafe { libc::kill(-leader, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills every process of a session, and everything below it. For what is left when all that should have ended it were
/// killed themselves.
pub fn end_session(leader: i32) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let is_member = |pid: &i32| {
        crate::process::session_of(*pid) == Some(leader) && !crate::process::has_ended(*pid)
    };
    loop {
        let members: Vec<i32> = parents().into_keys().filter(is_member).collect();
        if members.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("a process of a host command does not end"));
        }
        members.into_iter().for_each(end_tree);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Children of this process.
pub fn children() -> BTreeSet<i32> {
    let own = rustix::process::getpid().as_raw_pid();
    parents().into_iter().filter(|(_, parent)| *parent == own).map(|(pid, _)| pid).collect()
}

/// Kills everything below this process and waits until it is gone.
pub fn end_all() -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match reap()? {
            Reaped::NoChildren => return Ok(()),
            Reaped::One(_) => continue,
            Reaped::NoneYet => {}
        }
        kill(&stopped(rustix::process::getpid().as_raw_pid()));
        if Instant::now() > deadline {
            return Err(io::Error::other("a process of another user cannot be ended"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills one process and everything below it. Whoever adopts orphans reaps what is left of it.
pub fn end_tree(pid: i32) {
    let mut all = stopped(pid);
    all.insert(pid);
    kill(&all);
}

fn kill(pids: &BTreeSet<i32>) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // One that has ended meanwhile is what was wanted; one that cannot be signalled is found again.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Everything below a process, stopped so that nothing new appears while it is counted.
fn stopped(root: i32) -> BTreeSet<i32> {
    let mut known = BTreeSet::new();
    loop {
        let all = below(root);
        let new: Vec<i32> = all.difference(&known).copied().collect();
        if new.is_empty() {
            return known;
        }
        for pid in new.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(pid, Signal::STOP);
        }
        known.extend(new);
    }
}

fn below(root: i32) -> BTreeSet<i32> {
    let parents = parents();
    let mut found = BTreeSet::new();
    let mut grown = true;
    while grown {
        let before = found.len();
        for (pid, parent) in &parents {
            if *parent == root || found.contains(parent) {
                found.insert(*pid);
            }
        }
        grown = found.len() > before;
    }
    found
}

fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, crate::process::parent_of(pid)?))).collect()
}
