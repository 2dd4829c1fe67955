//! What waits beside a command while it sleeps.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::BenchError;
use crate::subject::Subject;

/// The command that waits, and the name of its process.
pub(crate) const COMMAND: [&str; 2] = ["sleep", "30"];

/// The processes beside one sleeping command.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) names: Vec<String>,
    /// Resident memory in kB, each page counted as often as it is mapped.
    pub(crate) rss: f64,
    /// The same with shared pages divided among those who share them.
    pub(crate) pss: f64,
}

/// Starts the subject, which runs [`COMMAND`], and looks at its processes.
pub(crate) fn measure(subject: &Subject) -> Result<Beside, BenchError> {
    let started = |error| BenchError::Start(subject.name.clone(), error);
    let mut child = subject.ready()?.command.spawn().map_err(started)?;
    let beside = settled(child.id());
    let killed = end(child.id()).and_then(|()| Ok(child.kill()?));
    let waited = child.wait().map_err(BenchError::from);
    killed.and(waited)?;
    beside?.ok_or_else(|| BenchError::Fails(subject.name.clone(), "its command never ran".into()))
}

/// Waits for the command to run, and a while longer for whatever else is still starting.
fn settled(root: u32) -> Result<Option<Beside>, BenchError> {
    for _ in 0..100 {
        sleep(Duration::from_millis(100));
        let family = family(root)?;
        if family.iter().any(|(_, name)| name == COMMAND[0]) {
            sleep(Duration::from_secs(1));
            return look(root).map(Some);
        }
    }
    Ok(None)
}

fn look(root: u32) -> Result<Beside, BenchError> {
    let mut beside = Beside::default();
    for (pid, name) in family(root)?.into_iter().filter(|(_, name)| name != COMMAND[0]) {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).map_err(|error| BenchError::Read(path, error))?;
        beside.rss += field(&text, "VmRSS:");
        // Root alone may look into a process that closed its memory to others.
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        beside.pss += field(&rollup, "Pss:");
        beside.names.push(name);
    }
    Ok(beside)
}

fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// The command's end is everybody's: no sandbox is left to its own devices.
fn end(root: u32) -> Result<(), BenchError> {
    for (pid, _) in family(root)?.into_iter().filter(|(_, name)| name == COMMAND[0]) {
        std::process::Command::new("kill").arg(pid.to_string()).status()?;
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// A process and all that descend from it, by number and name.
fn family(root: u32) -> Result<Vec<(u32, String)>, BenchError> {
    let mut children: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    let mut family = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Some((name, parent)) = stat(pid) else { continue };
        if pid == root {
            family.push((pid, name));
        } else {
            children.entry(parent).or_default().push((pid, name));
        }
    }
    let mut next = 0;
    while let Some((pid, _)) = family.get(next) {
        family.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    Ok(family)
}

/// Name and parent; `None` for a process that has just ended.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name.to_owned(), rest.split(' ').nth(1)?.parse().ok()?))
}
