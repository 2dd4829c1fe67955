//! The end: whoever is left, the layer, the disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;

use super::layer::Mounted;
use super::signals::{KILL, TERM};
use super::supervisor::{Event, Supervisor, kill};

/// How long what the agent has left behind may take to end.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// How long killed processes may take to be gone: the kernel may still write for them.
const KILLED: Duration = Duration::from_secs(5);
/// How long a layer may take to come to rest.
const REST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Ends every process but the spared ones: first asked, then killed.
pub(crate) fn end_all(supervisor: &mut Supervisor, spared: &[i32]) -> io::Result<()> {
    for pid in left(spared) {
        kill(pid, TERM);
    }
    wait_until_gone(supervisor, spared, LEFT_BEHIND, |_| ())?;
    kill_all(supervisor, spared)
}

/// Kills every process but the spared ones, and what they start meanwhile.
fn kill_all(supervisor: &mut Supervisor, spared: &[i32]) -> io::Result<()> {
    wait_until_gone(supervisor, spared, KILLED, |pid| kill(pid, KILL))
}

/// Kills every process but the spared ones, without waiting for their end.
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

/// A line of `/proc/PID/stat`, as far as it is needed.
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    is_zombie: bool,
}

/// Whom the end concerns: as PID 1 everybody, else all who descend from us. Not the spared ones, what
/// they have started, and their sessions. Threads of the kernel are nobody's.
fn left(spared: &[i32]) -> Vec<i32> {
    let own = sandbox_linux::process::pid();
    let all = processes();
    let parents: BTreeMap<i32, i32> =
        all.iter().map(|process| (process.pid, process.parent)).collect();
    let descends = |process: &Process, from: &[i32]| {
        let mut pid = process.pid;
        // As many steps as there are processes: the list may have changed while it was read.
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
    /// Takes the layer off the home and waits until it is at rest on the disk.
    pub(crate) fn undo(&self, supervisor: &mut Supervisor) -> io::Result<()> {
        let unmounted = self.unmount(supervisor);
        let Some(daemon) = self.daemon else { return unmounted };
        if unmounted.is_err() {
            // It can do so itself, as whoever mounted it.
            kill(daemon, TERM);
        }
        let until = Instant::now() + REST;
        while process(daemon).is_some_and(|process| !process.is_zombie) {
            if supervisor.next(Some(Instant::now() + LOOK_AGAIN))? == Event::Timeout
                && Instant::now() > until
            {
                return Err(io::Error::other("the process that serves the layer does not end"));
            }
        }
        Ok(())
    }

    /// A program that has just been killed may still hold it for a moment.
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
