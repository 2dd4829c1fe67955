//! The process on the host that carries out a session's host commands.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_linux::process::{ProcessHandle, start_of};
use sandbox_linux::signal::{KILL, TERM};

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);
/// Its number and the time of its start: a number alone may be another's by now.
const MARK: &str = "broker/pid";
const LOG: &str = "broker/log";

/// Starts it, unless it runs, and returns when it can be asked.
pub(super) fn ensure(dir: &Path, exe: &Path, words: &[String], audit: &Path) -> io::Result<()> {
    if answers(dir) {
        return Ok(());
    }
    stop(dir)?;
    if let Some(folder) = audit.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut child = start(dir, exe, words, audit)?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    fs::write(dir.join(MARK), format!("{pid} {}", start_of(pid).unwrap_or(0)))?;
    let deadline = Instant::now() + PATIENCE;
    while !answers(dir) {
        if child.try_wait()?.is_some() || Instant::now() > deadline {
            let said = fs::read_to_string(dir.join(LOG)).unwrap_or_default();
            stop(dir)?;
            return Err(io::Error::other(format!("it does not listen: {}", said.trim())));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn start(dir: &Path, exe: &Path, words: &[String], audit: &Path) -> io::Result<Child> {
    // What the caller has open is not for a process that outlives it.
    sandbox_linux::fd::close_all_on_exec()?;
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join(LOG))?;
    let mut command = Command::new(exe);
    command.args(words).arg("--audit").arg(audit).current_dir(dir).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}

fn answers(dir: &Path) -> bool {
    UnixStream::connect(dir.join("bridge/socket")).is_ok()
}

/// Ends it, and everything that it runs. One that is gone is no failure.
pub(super) fn stop(dir: &Path) -> io::Result<()> {
    let mark = fs::read_to_string(dir.join(MARK)).unwrap_or_default();
    let mut parts = mark.split_whitespace();
    let pid = parts.next().and_then(|pid| pid.parse::<i32>().ok());
    let started = parts.next().and_then(|start| start.parse::<u64>().ok());
    let (Some(pid), Some(started)) = (pid, started) else { return Ok(()) };
    for signal in [TERM, KILL] {
        let Ok(handle) = ProcessHandle::open(pid) else { return Ok(()) };
        // After the handle: it stays with the process that it was opened on.
        if start_of(pid) != Some(started) || handle.signal(signal).is_err() {
            return Ok(());
        }
        let deadline = Instant::now() + PATIENCE;
        while runs(pid, started) && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        if !runs(pid, started) {
            return Ok(());
        }
    }
    Err(io::Error::other("the broker of host commands does not end"))
}

fn runs(pid: i32, started: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let zombie = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    !zombie && start_of(pid) == Some(started)
}
