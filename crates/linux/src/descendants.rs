//! Tracking and killing all descendants of this process.
//!
//! A descendant can leave its process group with setsid(2) and its parent by forking twice. A child subreaper still
//! becomes the parent of every orphan, so all survivors of a process tree remain below it: `PR_SET_CHILD_SUBREAPER`,
//! prctl(2).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::{Change, change};

/// Time limit for killed processes to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes this process the child subreaper of its descendants.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Makes the kernel send `SIGTERM` to this process when its parent ends; fails if the parent has already ended:
/// `PR_SET_PDEATHSIG(2const)`.
pub fn end_with_parent(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_pid() == parent => Ok(()),
        _ => Err(io::Error::other("the parent process has ended")),
    }
}

/// Waits until any child has ended; `None` if there are no children.
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

/// Reaps a child that has ended, without waiting.
pub fn reap() -> io::Result<Reaped> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Ok(Reaped::One(pid.as_raw_pid())),
        Ok(None) | Err(rustix::io::Errno::INTR) => Ok(Reaped::NoneYet),
        Err(rustix::io::Errno::CHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error.into()),
    }
}

/// Result of [`reap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// Child that had ended.
    One(i32),
    /// All children still run.
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

/// Kills every process of a session and all their descendants. Cleans up when the processes that should have ended the
/// session were killed.
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
            return Err(io::Error::other("cannot end a process of a host command"));
        }
        members.into_iter().for_each(end_tree);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the children of this process.
pub fn children() -> BTreeSet<i32> {
    let own = rustix::process::getpid().as_raw_pid();
    parents().into_iter().filter(|(_, parent)| *parent == own).map(|(pid, _)| pid).collect()
}

/// Kills all descendants of this process and waits until they have ended.
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
            return Err(io::Error::other("cannot end a process of another user"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a process and all its descendants. The subreaper has to reap them.
pub fn end_tree(pid: i32) {
    let mut all = stopped(pid);
    all.insert(pid);
    kill(&all);
}

fn kill(pids: &BTreeSet<i32>) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // Ignore errors: either the process has ended, or the caller finds it again.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Stops and returns all descendants of a process. Stopped processes cannot fork while the others are listed.
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
