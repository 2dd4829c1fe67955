//! Memory of the helper processes of a sleeping command.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::BenchError;
use crate::subject::Subject;

/// The sleeping command. Its first word is also the name of its process.
pub(crate) const COMMAND: [&str; 2] = ["sleep", "30"];

/// Helper processes of a sleeping command.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) names: Vec<String>,
    /// Resident memory in kB. Shared pages count once for each process.
    pub(crate) rss: f64,
    /// Proportional set size in kB. Shared pages are divided among the processes (`proc_pid_smaps(5)`).
    pub(crate) pss: f64,
}

/// Starts the subject, which runs [`COMMAND`], and measures its helper processes.
pub(crate) fn measure(subject: &Subject) -> Result<Helpers, BenchError> {
    let started = |error| BenchError::Start(subject.name.clone(), error);
    let mut child = subject.ready()?.command.spawn().map_err(started)?;
    let helpers = sample_when_running(child.id());
    let killed = end(child.id()).and_then(|()| Ok(child.kill()?));
    let waited = child.wait().map_err(BenchError::from);
    killed.and(waited)?;
    helpers?
        .ok_or_else(|| BenchError::Fails(subject.name.clone(), "its command did not start".into()))
}

/// Waits until the command runs, and one more second for other processes to start.
fn sample_when_running(root: u32) -> Result<Option<Helpers>, BenchError> {
    for _ in 0..100 {
        sleep(Duration::from_millis(100));
        let descendants = descendants(root)?;
        if descendants.iter().any(|(_, name)| name == COMMAND[0]) {
            sleep(Duration::from_secs(1));
            return sample(root).map(Some);
        }
    }
    Ok(None)
}

fn sample(root: u32) -> Result<Helpers, BenchError> {
    let mut helpers = Helpers::default();
    for (pid, name) in descendants(root)?.into_iter().filter(|(_, name)| name != COMMAND[0]) {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).map_err(|error| BenchError::Read(path, error))?;
        helpers.rss += field(&text, "VmRSS:");
        // Only root can read `smaps_rollup` of a process that is not dumpable.
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        helpers.pss += field(&rollup, "Pss:");
        helpers.names.push(name);
    }
    Ok(helpers)
}

fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// Kills the command, so that the sandbox exits as well.
fn end(root: u32) -> Result<(), BenchError> {
    for (pid, _) in descendants(root)?.into_iter().filter(|(_, name)| name == COMMAND[0]) {
        std::process::Command::new("kill").arg(pid.to_string()).status()?;
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Returns the PID and name of a process and its descendants.
fn descendants(root: u32) -> Result<Vec<(u32, String)>, BenchError> {
    let mut children: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    let mut descendants = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Some((name, parent)) = stat(pid) else { continue };
        if pid == root {
            descendants.push((pid, name));
        } else {
            children.entry(parent).or_default().push((pid, name));
        }
    }
    let mut next = 0;
    while let Some((pid, _)) = descendants.get(next) {
        descendants.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    Ok(descendants)
}

/// Returns the name and parent of a process, or `None` if it has just ended.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name.to_owned(), rest.split(' ').nth(1)?.parse().ok()?))
}
