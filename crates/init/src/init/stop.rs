//! Shutdown: remaining processes, the layer, the disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;

use super::layer::Mounted;
use super::signals::{KILL, TERM};
use super::supervisor::{Event, Supervisor, kill};

/// Grace period of processes that the agent left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// Time for killed processes to end. The kernel may still write for them.
const KILLED: Duration = Duration::from_secs(5);
/// Time for the process of a layer to end after the unmount.
const REST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Ends all processes except the spared ones: with SIGTERM, then with SIGKILL.
pub(crate) fn end_all(supervisor: &mut Supervisor, spared: &[i32]) -> io::Result<()> {
    for pid in left(spared) {
        kill(pid, TERM);
    }
    wait_until_gone(supervisor, spared, LEFT_BEHIND, |_| ())?;
    kill_all(supervisor, spared)
}

/// Kills all processes except the spared ones, including those that start meanwhile.
fn kill_all(supervisor: &mut Supervisor, spared: &[i32]) -> io::Result<()> {
    wait_until_gone(supervisor, spared, KILLED, |pid| kill(pid, KILL))
}

/// Kills all processes except the spared ones, without waiting.
pub(crate) fn kill_tree(spared: &[i32]) {
    for pid in left(spared) {
        kill(pid, KILL);
    }
}

fn wait_until_gone(
    supervisor: &mut Supervisor,
    spared: &[i32],
    limit: Duration,
    each: impl Fn(i32),
) -> io::Result<()> {
    let until = Instant::now() + limit;
    loop {
        let left = left(spared);
        if left.is_empty() || Instant::now() > until {
            return Ok(());
        }
        left.into_iter().for_each(&each);
        supervisor.next(Some(Instant::now() + LOOK_AGAIN))?;
    }
}

/// Fields of `/proc/PID/stat`: `proc_pid_stat(5)`.
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    is_zombie: bool,
}

/// Returns the processes to end: all as PID 1, otherwise our descendants. Excludes zombies, kernel threads, and the
/// spared processes with their descendants and sessions.
fn left(spared: &[i32]) -> Vec<i32> {
    let own = sandbox_linux::process::pid();
    let all = processes();
    let parents: BTreeMap<i32, i32> =
        all.iter().map(|process| (process.pid, process.parent)).collect();
    let descends = |process: &Process, from: &[i32]| {
        let mut pid = process.pid;
        // At most as many steps as processes: the list may contain a cycle, because it changed while it was read.
        for _ in 0..=parents.len() {
            match parents.get(&pid) {
                Some(parent) if from.contains(parent) => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let is_spared = |process: &Process| {
        spared.contains(&process.pid)
            || spared.contains(&process.session)
            || descends(process, spared)
    };
    let ours = all.iter().filter(|process| process.pid != own && !process.is_zombie);
    let ours = ours.filter(|process| process.pid != 2 && process.parent != 2);
    let ours = ours.filter(|process| own == 1 || descends(process, &[own]));
    ours.filter(|process| !is_spared(process)).map(|process| process.pid).collect()
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, is_zombie })
}

impl Mounted {
    /// Unmounts the layer and waits until its process has written everything to disk.
    pub(crate) fn undo(&self, supervisor: &mut Supervisor) -> io::Result<()> {
        let unmounted = self.unmount(supervisor);
        let Some(daemon) = self.daemon else { return unmounted };
        if unmounted.is_err() {
            // The process that serves the mount can unmount it too.
            kill(daemon, TERM);
        }
        let until = Instant::now() + REST;
        while process(daemon).is_some_and(|process| !process.is_zombie) {
            if supervisor.next(Some(Instant::now() + LOOK_AGAIN))? == Event::Timeout
                && Instant::now() > until
            {
                return Err(io::Error::other(
                    "the process that serves the layer did not end in time",
                ));
            }
        }
        Ok(())
    }

    /// Unmounts the layer. A killed process may still keep the mount busy for a moment.
    fn unmount(&self, supervisor: &mut Supervisor) -> io::Result<()> {
        let until = Instant::now() + KILLED;
        loop {
            match rustix::mount::unmount(&self.home, UnmountFlags::NOFOLLOW) {
                Err(rustix::io::Errno::BUSY) if Instant::now() < until => {
                    supervisor.next(Some(Instant::now() + LOOK_AGAIN))?;
                }
                Err(rustix::io::Errno::BUSY) => {
                    return Ok(rustix::mount::unmount(&self.home, UnmountFlags::DETACH)?);
                }
                done => return Ok(done?),
            }
        }
    }
}
